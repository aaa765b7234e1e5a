"""Tools of MCP servers behind one guard. Run ``python examples/mcp_style_tools.py``; it needs no key, network or MCP library.

``Weather`` stands for an MCP client session, which has the same methods ``call_tool`` and ``list_tools``. In MCP two failures
look alike, as a result with ``isError``: "no such city" from a tool that works, and "connection refused" from one that doesn't.
A rule on the text distinguishes them. Use it for servers whose texts you trust.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear, classify_result, outage_in_text


class Weather:
    """An MCP server with one tool, and its client session."""

    def __init__(self, name: str, *, up: bool) -> None:
        self.name = name
        self.up = up

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools in MCP's format."""
        return [{"name": f"{self.name}_forecast", "inputSchema": {"type": "object"}}]

    async def call_tool(self, _name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a ``CallToolResult``. A failure is a result, not an exception."""
        await asyncio.sleep(0.01)
        if not self.up:
            return _result("Error executing tool: [Errno 111] Connection refused", failed=True)
        if arguments["city"] == "Atlantis":
            return _result("no such city: Atlantis", failed=True)
        return _result(f"{self.name}: rain in {arguments['city']}")


def _result(text: str, *, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": failed}


SERVERS = {"weather": Weather("weather", up=False), "backup": Weather("backup", up=True)}
CIRCUITS = {f"{server}_forecast": f"mcp:{server}:forecast" for server in SERVERS}  # name for the model -> circuit

gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=60))
guarded = gear.with_options(classify_result=functools.partial(classify_result, by_text=outage_in_text))


async def call(server: str, city: str) -> str:
    """Make one call, and return the text for the model."""
    session = SERVERS[server]
    try:
        result = await guarded.acall(f"mcp:{server}:forecast", session.call_tool, "forecast", {"city": city})
    except CircuitOpenError as refused:
        return f"REFUSED: {refused.text}"
    text: str = result["content"][0]["text"]
    return text


async def main() -> None:
    """Show that an outage opens a circuit and a wrong argument doesn't."""
    for _ in range(5):
        print("backup  ", await call("backup", "Atlantis"))
    print("backup  ", await call("backup", "Oslo"))
    for _ in range(4):
        print("weather ", await call("weather", "Oslo"))
    tools = [tool for session in SERVERS.values() for tool in await session.list_tools()]
    offered = gear.available(tools, circuit_of=CIRCUITS)
    print("offered ", [tool["name"] for tool in offered])
    print("message ", gear.outage_message(name_of={circuit: name for name, circuit in CIRCUITS.items()}))


if __name__ == "__main__":
    asyncio.run(main())
