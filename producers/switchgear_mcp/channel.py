"""What a way to a server is: messages go in one by one, and come out to a receiver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from switchgear_mcp.message import Id, Message

MIB: Final = 1_048_576
NO_HEADERS: Final[Mapping[str, str]] = {}


class Receiver(Protocol):
    """Gets what comes from a server. The next message is read when it has taken this one."""

    async def receive(self, message: Message, related: Id = None) -> None:
        """Take a message.

        Args:
            message: The message.
            related: The id of the request in whose answer it came, over HTTP.
        """

    async def fail(self, number: Id, error: Exception) -> None:
        """Note that a request gets no answer."""

    def skip(self, why: str) -> None:
        """Note something that is not a message."""


class Channel(Protocol):
    """One connection to a server."""

    async def run(self, opened: Callable[[], None]) -> None:
        """Connect, and read until the connection ends. Cancel it to end the connection.

        Args:
            opened: Called when messages can be sent.

        Raises:
            Exception: Why it ended.
        """

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message.

        Args:
            message: The message.
            headers: Headers of the client's request, over HTTP.

        Raises:
            ConnectionError: The connection has ended.
        """

    async def cancel(self, number: Id, notification: Message) -> None:
        """Tell the server that a request is cancelled."""

    async def described(self, error: BaseException | None) -> str:
        """Return why the connection ended, for a sentence that begins with the server."""


def larger(server: str, most: int) -> str:
    """Return the error about a message of a server that is too large."""
    return (
        f"An answer of the server {server} is larger than the proxy reads ({most / MIB:g} MiB), so it was left out. Ask for less at a "
        "time, such as a page or a part. The proxy's option --max-result reads more."
    )
