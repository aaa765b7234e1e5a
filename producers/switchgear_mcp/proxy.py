"""What all clients of a proxy share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from switchgear.client import Switchgear
from switchgear_mcp.link import Link
from switchgear_mcp.names import Names
from switchgear_mcp.servers import Server
from switchgear_mcp.state import Shared, Side
from switchgear_mcp.upstream import MOST_BYTES, Client, MakeChannel, Upstream, channel_of


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
        known_in: The folder of the last answers of servers, for the next process. None: they are not kept.
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
        known_in: Path | None = None,
    ) -> None:
        self._given: dict[str, Any] = {"limit_s": limit_s, "most": most, "clock": clock, "make": make}
        self.shared = Shared(servers, gear, terminal_after, known_in)
        self.most = most
        self.links: set[Link] = set()

    @property
    def names(self) -> Names:
        """The names of servers and tools."""
        return self.shared.names

    def link(self, side: Side, session_id: str | None = None) -> Link:
        """Return a new client's connections."""
        found = Link(self.shared, side, self._upstreams, session_id)
        self.links.add(found)
        return found

    def _upstreams(self, client: Client) -> dict[str, Upstream]:
        return {server.name: Upstream(server, client, **self._given) for server in self.shared.servers}

    async def end(self, link: Link) -> None:
        """End a client's connections."""
        self.links.discard(link)
        await link.close()

    async def close(self) -> None:
        """End all connections to servers, and their processes."""
        await asyncio.gather(*(self.end(link) for link in list(self.links)))
