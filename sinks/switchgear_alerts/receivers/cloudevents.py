"""CloudEvents 1.0 over HTTP, in structured mode, for brokers such as Knative and EventBridge."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final, Literal

from cloudevents.core.bindings.http import to_structured_event
from cloudevents.core.v1.event import CloudEvent
from pydantic import field_validator

from switchgear_alerts.messages import Message
from switchgear_alerts.receivers.base import Context, OnceReceiver, PlainUrlOptions
from switchgear_alerts.receivers.webhook import event_name, payload
from switchgear_alerts.secret import Secret
from switchgear_schemas import visible

_URI_REFERENCE: Final = re.compile(r"([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")


class CloudEventsOptions(PlainUrlOptions):
    """Options of a CloudEvents receiver."""

    type: Literal["cloudevents"]
    token: Secret | None = None
    source: str = "/switchgear"

    @field_validator("source")
    @classmethod
    def _uri_reference(cls, value: str) -> str:
        if not _URI_REFERENCE.fullmatch(value):
            raise ValueError("must be a URI reference such as /switchgear/eu")
        return value


class CloudEventsReceiver(OnceReceiver):
    """Sends one event a message. Receivers recognise a repeated one by its ``id``."""

    def __init__(self, options: CloudEventsOptions, context: Context) -> None:
        token = None if options.token is None else options.token.reveal_line("token", ascii_only=True)
        super().__init__(options.outbound(token or ""))
        self._url = options.url
        self._source = options.source
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._console_url = context.console_url

    async def send(self, message: Message) -> str:
        """Send a message."""
        found = to_structured_event(event(message, self._source, self._console_url))
        body = found.body if isinstance(found.body, bytes) else str(found.body).encode()
        reply = await self._http.post(self._url, body, {**found.headers, **self._headers})
        return f"HTTP {reply.status}"


def event(message: Message, source: str, console_url: str | None) -> CloudEvent:
    """Return the event of a message."""
    attributes: dict[str, Any] = {
        "id": message.id,
        "source": source,
        "type": f"dev.switchgear.{event_name(message)}",
        "time": datetime.fromtimestamp(message.created_at, UTC),
        "datacontenttype": "application/json",
    }
    if len(message.changes) == 1:
        attributes["subject"] = visible.name(message.changes[0].facts.circuit_id)
    return CloudEvent(attributes, payload(message, console_url)["data"])
