"""Everything else: Discord, Telegram, ntfy, Jira and a hundred more, by the library Apprise (an extra)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import Field

from switchgear_alerts import texts
from switchgear_alerts.errors import AlertsFileError, DeliveryError
from switchgear_alerts.messages import Change, Message
from switchgear_alerts.receivers.base import Context, ReceiverOptions
from switchgear_alerts.secret import Secret

TIMEOUT_S: Final = 30.0
_KINDS: Final = {"opened": "failure", "updated": "warning", "resolved": "success", "digest": "info"}


class AppriseOptions(ReceiverOptions):
    """Options of Apprise. Its URLs hold tokens, so they are secrets."""

    type: Literal["apprise"]
    urls: tuple[Secret, ...] = Field(min_length=1, max_length=10)


class AppriseReceiver:
    """Sends text. Apprise knows neither updates nor ends of incidents, so each change is a message of its own."""

    renew_every_s: float | None = None

    def __init__(self, options: AppriseOptions, context: Context) -> None:
        try:
            import apprise  # noqa: PLC0415 - an extra
        except ImportError:
            raise AlertsFileError(
                "The receiver type apprise needs a package.", hint="Install switchgear[apprise]."
            ) from None
        self._apprise: Any = apprise.Apprise()
        for url in options.urls:
            if not self._apprise.add(url.reveal()):
                raise AlertsFileError(
                    f"Apprise can't read the URL in {url.reference}.",
                    hint="Compare it with Apprise's page of the service.",
                )
        self._console_url = context.console_url

    async def send(self, message: Message) -> str:
        """Send a message."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                done = await self._apprise.async_notify(
                    title=texts.title(message),
                    body=texts.plain_text(message, self._console_url),
                    notify_type=_KINDS[message.kind],
                )
        except TimeoutError:
            raise DeliveryError(f"no answer within {TIMEOUT_S:g} s") from None
        if not done:
            raise DeliveryError("a service of Apprise refused it; its log says why")
        return "taken by Apprise"

    async def renew(self, firing: Sequence[Change]) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: Apprise keeps no connection."""
