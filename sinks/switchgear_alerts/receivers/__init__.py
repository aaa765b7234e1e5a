"""The receivers, one file each."""

from __future__ import annotations

from typing import Any, Final

from switchgear_alerts.errors import AlertsFileError
from switchgear_alerts.receivers.alertmanager import AlertmanagerOptions, AlertmanagerReceiver
from switchgear_alerts.receivers.apprise import AppriseOptions, AppriseReceiver
from switchgear_alerts.receivers.base import Context, Receiver, ReceiverOptions
from switchgear_alerts.receivers.cloudevents import CloudEventsOptions, CloudEventsReceiver
from switchgear_alerts.receivers.email import EmailOptions, EmailReceiver
from switchgear_alerts.receivers.pagerduty import PagerDutyOptions, PagerDutyReceiver
from switchgear_alerts.receivers.slack import SlackOptions, SlackReceiver
from switchgear_alerts.receivers.teams import TeamsOptions, TeamsReceiver
from switchgear_alerts.receivers.webhook import WebhookOptions, WebhookReceiver

RECEIVERS: Final[dict[str, tuple[type[ReceiverOptions], Any]]] = {
    "alertmanager": (AlertmanagerOptions, AlertmanagerReceiver),
    "apprise": (AppriseOptions, AppriseReceiver),
    "cloudevents": (CloudEventsOptions, CloudEventsReceiver),
    "email": (EmailOptions, EmailReceiver),
    "pagerduty": (PagerDutyOptions, PagerDutyReceiver),
    "slack": (SlackOptions, SlackReceiver),
    "teams": (TeamsOptions, TeamsReceiver),
    "webhook": (WebhookOptions, WebhookReceiver),
}
"""Options and receiver of each ``type``."""
OPTIONS: Final = {kind: options for kind, (options, _) in RECEIVERS.items()}
_OF_OPTIONS: Final = dict(RECEIVERS.values())


def make_receiver(name: str, options: ReceiverOptions, context: Context) -> Receiver:
    """Return a receiver, with its secrets read.

    Raises:
        AlertsFileError: A secret can't be read, or is not what the receiver needs. The error doesn't show it.
    """
    try:
        receiver: Receiver = _OF_OPTIONS[type(options)](options, context)
    except AlertsFileError as error:
        raise AlertsFileError(f"[receivers.{name}]: {error.message}", hint=error.hint) from None
    except ValueError as error:  # of a secret URL
        raise AlertsFileError(f"[receivers.{name}], key url: {error}.") from None
    return receiver
