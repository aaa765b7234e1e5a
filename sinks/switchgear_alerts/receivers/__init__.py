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

OPTIONS: Final[dict[str, type[ReceiverOptions]]] = {
    "alertmanager": AlertmanagerOptions,
    "apprise": AppriseOptions,
    "cloudevents": CloudEventsOptions,
    "email": EmailOptions,
    "pagerduty": PagerDutyOptions,
    "slack": SlackOptions,
    "teams": TeamsOptions,
    "webhook": WebhookOptions,
}
"""The options of each ``type``."""
_RECEIVERS: Final[dict[type[ReceiverOptions], Any]] = {
    AlertmanagerOptions: AlertmanagerReceiver,
    AppriseOptions: AppriseReceiver,
    CloudEventsOptions: CloudEventsReceiver,
    EmailOptions: EmailReceiver,
    PagerDutyOptions: PagerDutyReceiver,
    SlackOptions: SlackReceiver,
    TeamsOptions: TeamsReceiver,
    WebhookOptions: WebhookReceiver,
}


def make_receiver(name: str, options: ReceiverOptions, context: Context) -> Receiver:
    """Return a receiver, with its secrets read.

    Raises:
        AlertsFileError: A secret can't be read, or is not what the receiver needs. The error doesn't show it.
    """
    try:
        receiver: Receiver = _RECEIVERS[type(options)](options, context)
    except AlertsFileError as error:
        raise AlertsFileError(f"[receivers.{name}]: {error.message}", hint=error.hint) from None
    except ValueError as error:  # of a secret URL
        raise AlertsFileError(f"[receivers.{name}], key url: {error}.") from None
    return receiver
