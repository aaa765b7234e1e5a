"""What every receiver has: options in the file, and a way to send a message."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from switchgear_alerts.messages import Change, Message
from switchgear_alerts.outbound import Outbound, check_url, read_url
from switchgear_alerts.secret import Secret


class ReceiverOptions(BaseModel):
    """A ``[receivers.NAME]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    takes_digest: ClassVar[bool] = True
    """Whether it can show a summary."""

    def references(self) -> dict[str, Secret]:
        """Return the references to secrets by key."""
        found: dict[str, Secret] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            several = value if isinstance(value, tuple) else (value,)
            found |= {
                f"{name}[{place}]" if place else name: each
                for place, each in enumerate(several)
                if isinstance(each, Secret)
            }
        return found


class HttpOptions(ReceiverOptions):
    """Options of a receiver that is reached by HTTP."""

    allow_private: bool = False
    proxy: str | None = None

    @field_validator("proxy")
    @classmethod
    def _http_proxy(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        if value is not None:
            read_url(value, "http://proxy.example.com:3128")
        return value

    def outbound(self, *secrets: str) -> Outbound:
        """Return what sends the requests."""
        return Outbound(secrets, allow_private=self.allow_private, proxy=self.proxy)


class PlainUrlOptions(HttpOptions):
    """Options of a receiver whose URL isn't secret."""

    url: str

    @model_validator(mode="after")
    def _reachable(self) -> PlainUrlOptions:
        try:
            check_url(self.url, allow_private=self.allow_private)
        except ValueError as error:
            raise ValueError(f"url {error}") from None
        return self


@dataclass(frozen=True, slots=True)
class Context:
    """What receivers know of the system.

    Attributes:
        console_url: Address of the console; None without one.
        source: What names this installation to others.
    """

    console_url: str | None = None
    source: str = "switchgear"


class Receiver(Protocol):
    """Sends messages to one place."""

    @property
    def renew_every_s(self) -> float | None:
        """How often the open incidents are sent again; None: never."""

    async def send(self, message: Message) -> str:
        """Send a message and return what was answered.

        Raises:
            DeliveryError: It was not taken.
        """

    async def renew(self, firing: Sequence[Change]) -> None:
        """Send the open incidents again.

        Raises:
            DeliveryError: They were not taken.
        """

    async def close(self) -> None:
        """Close the connections."""


class Progress:
    """Which addresses of a receiver are done with a message, so that the next try leaves them out.

    A receiver gets one message at a time, so only the last one is remembered.
    """

    def __init__(self) -> None:
        self._message_id = ""
        self.taken: set[str] = set()
        self.refused: dict[str, str] = {}
        """Addresses that will never take it, with what they answered."""

    def begin(self, message_id: str) -> None:
        """Begin with a message, or go on with the same one."""
        if message_id != self._message_id:
            self._message_id, self.taken, self.refused = message_id, set(), {}

    def left(self, addresses: Iterable[str]) -> list[str]:
        """Return the addresses that are not done."""
        return [each for each in addresses if each not in self.taken and each not in self.refused]


class OnceReceiver:
    """A receiver that needs no repetition, with HTTP connections."""

    renew_every_s: float | None = None

    def __init__(self, http: Outbound) -> None:
        self._http = http

    async def renew(self, firing: Sequence[Change]) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


class ChatOptions(HttpOptions):
    """Options of a channel of a chat. The URL of its incoming webhook is a secret."""

    url: Secret


class ChatReceiver(OnceReceiver, ABC):
    """Sends one request a message to the incoming webhook of a chat."""

    def __init__(self, options: ChatOptions, context: Context) -> None:
        self._url = revealed_url(options.url, allow_private=options.allow_private)
        super().__init__(options.outbound(self._url))
        self._console_url = context.console_url

    @staticmethod
    @abstractmethod
    def payload(message: Message, console_url: str | None) -> dict[str, Any]:
        """Return the body of the request."""

    async def send(self, message: Message) -> str:
        """Send a message."""
        reply = await self._http.post(self._url, to_json(self.payload(message, self._console_url)), JSON_TYPE)
        return f"HTTP {reply.status} {reply.text}".strip()


def revealed_url(secret: Secret, *, allow_private: bool) -> str:
    """Return a secret URL.

    Raises:
        AlertsFileError: The reference names nothing.
        ValueError: The URL is not allowed. The error doesn't show it.
    """
    url = secret.reveal()
    check_url(url, allow_private=allow_private)
    return url


def to_json(value: Any) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


JSON_TYPE = {"content-type": "application/json"}
