"""Everything else: Discord, Telegram, ntfy, Jira and a hundred more, by the library Apprise (an extra)."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import Field

from switchgear_alerts import texts
from switchgear_alerts.errors import AlertsFileError, DeliveryError
from switchgear_alerts.messages import Change, Message
from switchgear_alerts.outbound import check_address
from switchgear_alerts.receivers.base import Context, Progress, ReceiverOptions
from switchgear_alerts.receivers.fitting import paragraphs
from switchgear_alerts.secret import Secret
from switchgear_alerts.wall import Wall, walled

TIMEOUT_S: Final = 60.0
_MOST_PARTS: Final = 4
"""Of a long text. For most services Apprise waits 5.5 s between two parts."""
_MENTION: Final = re.compile(r"(?<=[@<])(?=\S)")
_CHECKABLE: Final = ("requests", "smtplib")
"""Libraries that connect in the thread that sends, where the wall sees it. The modules of Apprise's services import one of them or neither."""
_KINDS: Final = {"opened": "failure", "updated": "warning", "resolved": "success", "digest": "info"}


class AppriseOptions(ReceiverOptions):
    """Options of Apprise. Its URLs hold tokens, so they are secrets."""

    type: Literal["apprise"]
    urls: tuple[Secret, ...] = Field(min_length=1, max_length=10)
    allow_private: bool = False


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
        self._services: dict[str, Any] = {}
        self._walls: dict[str, list[Wall]] = {}
        self._progress = Progress()
        self._text = apprise.NotifyFormat.TEXT
        for url in options.urls:
            service = self._services[url.reference] = apprise.Apprise()
            if not service.add(url.reveal()):
                raise AlertsFileError(
                    f"Apprise can't read the URL in {url.reference}.",
                    hint="Compare it with Apprise's page of the service.",
                )
            for each in service:
                each.overflow_mode = apprise.OverflowMode.SPLIT
                each.redirects = False
            if not options.allow_private:
                self._walls[url.reference] = [_wall(each, url.reference) for each in service]
        self._console_url = context.console_url

    async def send(self, message: Message) -> str:
        """Send a message to the services that don't have it yet."""
        self._progress.begin(message.id)
        left = self._progress.left(self._services)
        failures = await asyncio.gather(*(self._notify(name, message) for name in left))
        failed = {name: why for name, why in zip(left, failures, strict=True) if why}
        self._progress.taken.update(name for name in left if name not in failed)
        if failed:
            raise DeliveryError(
                "; ".join(f"{name}: {why}" for name, why in failed.items()),
                permanent=all(map(self._refused, failed)),
            )
        return "taken by Apprise"

    def _refused(self, name: str) -> str:
        """Return the address that the wall refused to a service at its last message."""
        return next((wall.refused for wall in self._walls.get(name, ()) if wall.refused), "")

    async def _notify(self, name: str, message: Message) -> str:
        """Send a message to one service, and return why it failed."""
        service = self._services[name]
        lines = paragraphs(message, _MOST_PARTS * min(each.body_maxlen for each in service))
        if (link := texts.console_link(self._console_url, message.changes)) is not None:
            lines.append(link)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                done = await service.async_notify(
                    title=_without_mentions(texts.title(message)),
                    body=_without_mentions("\n".join(lines)),
                    notify_type=_KINDS[message.kind],
                    body_format=self._text,
                )
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:g} s"
        if not done and (address := self._refused(name)):
            return f"its host leads to the private address {address}; allow it by allow_private = true"
        return "" if done else "the service refused it; Apprise's log says why"

    async def renew(self, firing: Sequence[Change]) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: Apprise keeps no connection."""


def _wall(service: Any, reference: str) -> Wall:
    """Put a wall around what a service of Apprise sends.

    Raises:
        AlertsFileError: Its host is a private address, or it connects in a way that the wall can't check.
    """
    if not any(hasattr(sys.modules[type(service).__module__], name) for name in _CHECKABLE):
        raise AlertsFileError(
            f"Apprise's service {service.service_name} in {reference} opens connections that can't be checked.",
            hint="Use another service, or set allow_private = true.",
        )
    host = str(service.host or "")
    try:
        check_address(host, allow_private=False)
    except ValueError as error:
        raise AlertsFileError(f"The host in {reference} {error}.") from None
    wall = Wall(host)
    service.send = walled(service.send, wall)
    return wall


def _without_mentions(text: str) -> str:
    """Return a text that mentions no person or channel: a space without width breaks what chats read as ``@everyone`` or ``<!channel>``."""
    return _MENTION.sub("\u200b", text)
