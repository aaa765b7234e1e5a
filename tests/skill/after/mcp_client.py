"""A client of an MCP server with a tool that hangs."""

import asyncio

from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer

from switchgear import Switchgear
from switchgear.integrations.mcp_client import guard_session

gear = Switchgear.from_env(service="planner")
CALLS: list[str] = []
weather = MCPServer("weather", log_level="CRITICAL")


@weather.tool()
async def get_forecast(city: str) -> str:
    """Return the forecast of a city."""
    CALLS.append(city)
    await asyncio.sleep(60)
    return f"sunny in {city}"


async def main() -> None:
    """Make the calls that a model asks for."""
    async with Client(weather) as client:
        guard_session(client, gear, server="weather")
        for number in range(10):
            try:
                result = await client.call_tool("get_forecast", {"city": f"city {number}"}, read_timeout_seconds=0.05)
            except MCPError as error:
                print(f"Error: {error.message}")
            else:
                print(result.content[0].text)
    print(len(CALLS), "calls reached the tool")
    gear.close()


asyncio.run(main())
