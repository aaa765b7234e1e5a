"""The tools that the load calls: their names, the probes that their circuits permit, and when they are down."""

from __future__ import annotations

import time
import zlib

from tests.chaos.servers import server_circuit, server_of

EMITTED = tuple(f"emitted:server-{number}:tool" for number in range(24))
"""Reported by emitters. They are healthy, with a few errors."""
FLAPPING = tuple(f"emitted:flapping-{number}:tool" for number in range(4))
"""Reported by emitters without a guard. They fail and recover."""
EMITTED_OF_SERVER = tuple(f"mcp:mixed:emitted-{number}" for number in range(4))
"""The same, of a server that also has guarded tools."""
SERVERS = {
    "mcp:one": tuple(f"mcp:one:tool-{number}" for number in range(5)),
    "mcp:three": tuple(f"mcp:three:tool-{number}" for number in range(4)),
    "mcp:mixed": (*(f"mcp:mixed:guarded-{number}" for number in range(2)), *EMITTED_OF_SERVER),
}
"""Servers with their tools. Each dies with all its tools, and recovers. In between, one of its tools is broken, each time another one."""
ALONE = tuple(f"guarded:one-{number}:tool" for number in range(4)) + tuple(
    f"guarded:three-{number}:tool" for number in range(2)
)
"""Called through guards, with one probe or with three. They fail and recover."""
GUARDED = (*ALONE, *(tool for tools in SERVERS.values() for tool in tools if tool not in EMITTED_OF_SERVER))
"""All that are called through guards."""
PERMITTED = {tool: 3 if ":three-" in tool else 1 for tool in GUARDED} | {
    server_circuit(server): 3 if server == "mcp:three" else 1 for server in SERVERS
}
"""The probes that the policy of each guarded circuit permits."""
PERIOD_S = 18.0
DOWN_S = 5.0
BROKEN_S = (10.0, 14.0)
"""The part of a server's period in which one of its tools is broken. It is farther from an outage than the window of its policy."""


def is_down(tool: str, now: float | None = None) -> bool:
    """Return whether the tool fails now, by the machine's true clock. All processes get the same answer."""
    at = time.clock_gettime(time.CLOCK_REALTIME) if now is None else now
    server = server_of(tool)
    turn, since = divmod(at + zlib.crc32((server or tool).encode()) % 1800 / 100, PERIOD_S)
    if server is None or since < DOWN_S:
        return since < DOWN_S
    tools = SERVERS[server]
    return BROKEN_S[0] <= since < BROKEN_S[1] and tool == tools[int(turn) % len(tools)]
