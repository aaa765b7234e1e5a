"""Prometheus Alertmanager, API v2. It groups, silences and routes; alerts are sent again while they fire."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, field_validator, model_validator

from switchgear_alerts import texts
from switchgear_alerts.durations import Duration
from switchgear_alerts.messages import Change, Message
from switchgear_alerts.receivers.base import JSON_TYPE, Context, PlainUrlOptions, to_json
from switchgear_alerts.secret import Secret
from switchgear_schemas.times import rfc3339

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class AlertmanagerOptions(PlainUrlOptions):
    """Options of an Alertmanager."""

    takes_digest: ClassVar[bool] = False

    type: Literal["alertmanager"]
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    labels: Mapping[str, str] = {}
    resend: Duration = Field(default=60.0, ge=10)

    @field_validator("labels")
    @classmethod
    def _label_names(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in value:
            if not _LABEL.fullmatch(name):
                raise ValueError(
                    f"the name {name!r} must be of ASCII letters, digits and _, and not begin with a digit"
                )
        return value

    @model_validator(mode="after")
    def _one_login(self) -> AlertmanagerOptions:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together")
        if self.username is not None and (":" in self.username or not self.username.isprintable()):
            raise ValueError("username must have neither a colon nor control characters")
        if self.token is not None and self.username is not None:
            raise ValueError("token and username exclude each other")
        return self


class AlertmanagerReceiver:
    """Sends all alerts of a message in one request."""

    def __init__(self, options: AlertmanagerOptions, context: Context) -> None:
        self._headers = dict(JSON_TYPE)
        secret = login = ""
        if options.token is not None:
            secret = options.token.reveal_line("token", ascii_only=True)
            self._headers["authorization"] = f"Bearer {secret}"
        elif options.password is not None:
            secret = options.password.reveal_line("password")
            login = base64.b64encode(f"{options.username}:{secret}".encode()).decode()
            self._headers["authorization"] = f"Basic {login}"
        self._http = options.outbound(secret, login)
        self._url = f"{options.url.rstrip('/')}/api/v2/alerts"
        self._labels = options.labels
        self._console_url = context.console_url
        self.renew_every_s: float | None = options.resend

    async def send(self, message: Message) -> str:
        """Send a message."""
        alerts = [alert(change, self._labels, self._console_url) for change in message.changes]
        reply = await self._http.post(self._url, to_json(alerts), self._headers)
        return f"HTTP {reply.status}"

    async def renew(self, firing: Sequence[Change]) -> None:
        """Send the open incidents again: Alertmanager resolves an alert that is not repeated."""
        alerts = [alert(change, self._labels, self._console_url) for change in firing]
        await self._http.post(self._url, to_json(alerts), self._headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def alert(change: Change, labels: Mapping[str, str], console_url: str | None) -> dict[str, Any]:
    """Return one alert. Its labels are its identity, so they are the same from its opening to its end."""
    facts = change.facts
    found: dict[str, Any] = {
        "labels": {
            **labels,
            "alertname": "SwitchgearCircuitOpen",
            "circuit": facts.circuit_id,
            "tool": facts.tool_name,
            "scope": facts.scope,
            "severity": change.severity,
            **({"family": facts.family} if facts.family else {}),
        },
        "annotations": {
            "summary": texts.title_of(change),
            "description": " ".join(texts.sentences(change)),
            "incident": change.incident,
        },
        "startsAt": rfc3339(change.opened_at),
    }
    if change.kind == "resolved":
        found["endsAt"] = rfc3339(max(change.at, change.opened_at + 0.001))
    if (link := texts.console_link(console_url, [change])) is not None:
        found["generatorURL"] = link
    return found
