"""Standard Webhooks (standardwebhooks.com): signed JSON to an address of your own."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic import Field
from standardwebhooks.webhooks import Webhook

from switchgear_alerts import texts
from switchgear_alerts.errors import AlertsFileError
from switchgear_alerts.messages import Change, Message
from switchgear_alerts.receivers.base import Context, OnceReceiver, PlainUrlOptions, to_json
from switchgear_alerts.secret import Secret
from switchgear_schemas.times import rfc3339

SHORTEST_KEY: Final = 24
LONGEST_KEY: Final = 64


class WebhookOptions(PlainUrlOptions):
    """Options of a Standard Webhook. During a rotation, name the new and the old secret."""

    type: Literal["webhook"]
    secrets: tuple[Secret, ...] = Field(min_length=1, max_length=4)


class WebhookReceiver(OnceReceiver):
    """Sends one signed request a message. Its ``webhook-id`` stays the same when it is sent again."""

    def __init__(self, options: WebhookOptions, context: Context) -> None:
        revealed = [each.reveal() for each in options.secrets]
        super().__init__(options.outbound(*revealed))
        self._url = options.url
        self._console_url = context.console_url
        self._signers = [_signer(each, reference) for each, reference in zip(revealed, options.secrets, strict=True)]

    async def send(self, message: Message) -> str:
        """Send a message."""
        body = to_json(payload(message, self._console_url))
        now = datetime.now(UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": message.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(each.sign(message.id, now, body.decode()) for each in self._signers),
        }
        reply = await self._http.post(self._url, body, headers)
        return f"HTTP {reply.status}"


def _signer(secret: str, reference: Secret) -> Webhook:
    """Return what signs with a secret.

    Raises:
        AlertsFileError: It is not a secret as the specification wants it.
    """
    text = secret.removeprefix("whsec_").rstrip("=")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        key = b""
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise AlertsFileError(
            f"The secret in {reference.reference} is not base64 of {SHORTEST_KEY} to {LONGEST_KEY} bytes.",
            hint="Make one: echo whsec_$(openssl rand -base64 32).",
        )
    return Webhook(key)


def payload(message: Message, console_url: str | None) -> dict[str, Any]:
    """Return a message as JSON: the same for Standard Webhooks and in the data of CloudEvents."""
    data: dict[str, Any] = {"title": texts.title(message), "text": "\n".join(texts.paragraphs(message))}
    if message.digest is not None:
        digest = message.digest
        data |= {
            "since": rfc3339(digest.since),
            "until": rfc3339(digest.until),
            "opens": digest.opens,
            "open_now": list(digest.open_now),
            "circuits": [
                {"circuit": each.circuit_id, "opens": each.opens, "open_s": each.open_s, "longest_s": each.longest_s}
                for each in digest.tools
            ],
        }
    else:
        data["incidents"] = [incident(change) for change in message.changes]
    if (link := texts.console_link(console_url, message.changes)) is not None:
        data["console_url"] = link
    return {"type": f"switchgear.{event_name(message)}", "timestamp": rfc3339(message.created_at), "data": data}


def event_name(message: Message) -> str:
    """Return ``incident.opened``, or ``digest``."""
    return "digest" if message.digest is not None else f"incident.{message.kind}"


def incident(change: Change) -> dict[str, Any]:
    """Return one change as JSON."""
    facts = change.facts
    found = {
        "id": change.id,
        "incident": change.incident,
        "change": change.kind,
        "severity": change.severity,
        "circuit": facts.circuit_id,
        "tool": facts.tool_name,
        "family": facts.family,
        "scope": facts.scope,
        "state": facts.state,
        "why": facts.why,
        "rule": facts.rule or None,
        "value": facts.value,
        "threshold": facts.threshold,
        "reporters": facts.reporters,
        "last_error": facts.last_error,
        "note": change.note or None,
        "actor": facts.actor,
        "flapping": change.flapping,
        "opens": change.opens,
        "opened_at": rfc3339(change.opened_at),
        "at": rfc3339(change.at),
        "next_probe_at": None if facts.open_until is None else rfc3339(facts.open_until),
    }
    return {name: value for name, value in found.items() if value is not None}
