"""An agent with a tool of an MCP server that hangs. The model is a script: it needs no key and no network.

pip install "switchgear[mcp]"
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.mcp_client import guard_session

weather: Any = MCPServer("weather", log_level="CRITICAL")  # yours is a process of its own, or a URL


@weather.tool()
async def get_forecast(city: str) -> str:
    """Return the forecast for a city."""
    await asyncio.sleep(60)
    return f"sunny in {city}"


@weather.tool()
async def get_climate(city: str) -> str:
    """Return what the weather in a city is usually like."""
    return f"usually mild in {city}"


gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60))


async def turn(client: Client, tool: str, city: str) -> None:
    """Offer the tools to the model, and make the call that it asks for."""
    print("offered:", ", ".join(each.name for each in (await client.list_tools()).tools))
    try:
        result = await client.call_tool(tool, {"city": city}, read_timeout_seconds=0.2)
    except MCPError as error:
        print(f"  {tool}('{city}') raised: {error.message}")
    else:
        print(f"  {tool}('{city}') -> {result.content[0].text}")


async def main() -> None:
    """Call the tool that hangs until its circuit opens."""
    async with Client(weather) as client:
        guard_session(client, gear, server="weather")
        for city in ("Oslo", "Rome", "Lima"):
            await turn(client, "get_forecast", city)
        gear.map_fallbacks({"mcp:weather:get_forecast": ["mcp:weather:get_climate"]})
        await turn(client, "get_forecast", "Lima")
    print("notice:", gear.notice(name_of={"mcp:weather:get_forecast": "get_forecast"}).partition(" (")[0])


asyncio.run(main())
