"""What all clients of a proxy share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from switchgear.client import Switchgear
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_mcp.names import Names
from switchgear_mcp.relay.calls import Calls
from switchgear_mcp.relay.link import Link, Side
from switchgear_mcp.relay.message import Raw
from switchgear_mcp.relay.upstream import MOST_BYTES, Client, MakeChannel, Upstream, channel_of
from switchgear_mcp.servers import Server

_MOST_LISTS: Final = 1_000


class Proxy:
    """Passes messages between clients and servers, and tool calls through circuits.

    Each client gets a connection of its own to each server.

    Args:
        servers: The servers. With several, their tools and prompts have the server's name in front.
        gear: The client that guards the calls.
        limit_s: The longest wait for a server's answer or for progress. None: the client's own limit.
        terminal_after: After this many refused calls of one client, answer with a protocol error. None: never.
        most: The most bytes of one message of a server.
        clock: Returns seconds, for the pauses between connections.
        make: Makes the way to a server.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        gear: Switchgear,
        *,
        limit_s: float | None = None,
        terminal_after: int | None = None,
        most: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
        make: MakeChannel = channel_of,
    ) -> None:
        self._clock, self._make = clock, make
        self.servers, self.gear, self.limit_s, self.most = servers, gear, limit_s, most
        self.names = Names([server.name for server in servers])
        self.calls = Calls(gear, self.names, terminal_after=terminal_after)
        self.links: set[Link] = set()
        self.greetings: dict[str, Raw] = {}
        """The last answer of each server to ``initialize``, for clients that come while it is down."""
        self.known = BoundedDict[tuple[str, str], Raw](_MOST_LISTS)
        """The last first page of each list of the only server, likewise."""
        self.parts = BoundedDict[tuple[str, str], list[Raw]](_MOST_LISTS)
        """The last list of each of several servers, likewise."""

    def link(self, side: Side, session_id: str | None = None) -> Link:
        """Return a new client's connections."""
        found = Link(self, side, session_id)
        self.links.add(found)
        return found

    def upstreams(self, client: Client) -> dict[str, Upstream]:
        """Return a new client's servers by their names."""
        given: dict[str, Any] = {"limit_s": self.limit_s, "most": self.most, "clock": self._clock, "make": self._make}
        return {server.name: Upstream(server, client, **given) for server in self.servers}

    async def end(self, link: Link) -> None:
        """End a client's connections."""
        self.links.discard(link)
        await link.close()

    async def close(self) -> None:
        """End all connections to servers, and their processes."""
        await asyncio.gather(*(self.end(link) for link in list(self.links)))
