"""What the parts of the proxy know: what all clients share, and what is of one client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from switchgear.client import Switchgear
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_http.principal import Principal, Role
from switchgear_mcp.calls import Calls, no_answer
from switchgear_mcp.connection import Finish
from switchgear_mcp.entries import Entries
from switchgear_mcp.known import Known
from switchgear_mcp.message import Id, Message, Raw
from switchgear_mcp.names import Names
from switchgear_mcp.servers import Server
from switchgear_mcp.upstream import Upstream

_MOST_LISTS: Final = 1_000


class Side(Protocol):
    """The client's side of a connection.

    Attributes:
        logs_in: Whether the client can log in at a server, because it speaks HTTP.
    """

    logs_in: bool

    async def send(self, message: Message, related: Id = None) -> None:
        """Send a message to the client, and wait until there is room for more.

        Args:
            message: The message.
            related: The id of the client's request that it answers, or is about. None if that isn't known.
        """


class Shared:
    """What all clients of a proxy share.

    Args:
        servers: The servers.
        gear: The client that guards the calls.
        terminal_after: See :class:`~switchgear_mcp.calls.Calls`.
        known_in: See :class:`~switchgear_mcp.known.Known`.
    """

    def __init__(
        self, servers: Sequence[Server], gear: Switchgear, terminal_after: int | None, known_in: Path | None = None
    ) -> None:
        self.servers, self.gear = servers, gear
        self.names = Names([server.name for server in servers])
        self.calls = Calls(gear, self.names, terminal_after=terminal_after)
        self.entries = Entries()
        self.known = Known(servers, known_in)
        """The last answers of servers to ``initialize``, and their lists: of the only one, the first pages."""
        self.annotated = BoundedDict[tuple[str, str], dict[tuple[str, ...], str]](_MOST_LISTS)
        """By server and tool, the arguments that headers of HTTP repeat."""


class ClientState:
    """What is known of one client.

    Args:
        shared: What all clients share.
        side: Sends to the client.
    """

    def __init__(self, shared: Shared, side: Side) -> None:
        self.shared, self.side = shared, side
        self.upstreams: dict[str, Upstream] = {}
        """The servers by their names, each with connections of its own."""
        self.session_id: str | None = None
        """Names the client for its list of tools and the limits of callers. None: it has no session."""
        self.principal: Principal | None = None
        """Who the client is, over HTTP. None: the proxy's own user."""
        self.tools: dict[str, list[str]] = {}
        """The names of the tools of each server, as clients know them, and as they were listed last."""
        self.stale: set[str] = {server.name for server in shared.servers}
        """Servers whose tools have changed since, or were never listed to the end."""
        self.offered: frozenset[str] | None = None
        """The tools that the client knows of. None before its first list."""
        self.listens: dict[Id, Raw] = {}
        """Subscriptions to changes of the list of tools, in the protocol without a handshake: ids of their requests."""

    @property
    def only(self) -> Upstream | None:
        """The server, if there is one only."""
        return next(iter(self.upstreams.values())) if len(self.upstreams) == 1 else None

    def may_use(self, name: str) -> bool:
        """Return whether the client's token allows a tool."""
        return self.principal is None or self.principal.may(Role.EMIT, self.shared.names.circuit(name))

    def finish(self, message: Message) -> Finish:
        """Return what sends the end of a request to the client."""

        async def finish(end: Message | Exception) -> None:
            self.listens.pop(message.id, None)
            await self.side.send(no_answer(message, end) if isinstance(end, Exception) else end, message.id)

        return finish
