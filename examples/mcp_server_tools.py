"""A server of the MCP Python SDK whose weather service breaks, and a client of it in the same process. It needs no network.

pip install "switchgear[mcp]"
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import Client
from mcp.server.mcpserver import MCPServer

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.mcp_server import guard_server

server: Any = MCPServer("weather", log_level="CRITICAL")
down = {"weather.example"}


def ask(host: str, answer: str) -> str:
    """Return the answer of a host that may be down."""
    if host in down:
        raise ConnectionError(f"{host} refused the connection")
    return answer


@server.tool()
def get_forecast(city: str) -> str:
    """Return the forecast for a city."""
    return ask("weather.example", f"sunny in {city}")


@server.tool()
def get_climate(city: str) -> str:
    """Return what the weather in a city is usually like."""
    return ask("climate.example", f"usually mild in {city}")


@server.tool()
def get_news(city: str) -> str:
    """Return the news of a city."""
    return f"no news of {city}"


gear = Switchgear.local(
    local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60),
    fallbacks={"get_forecast": "get_climate"},
)
guard_server(server, gear)


async def call(client: Client, name: str, city: str) -> None:
    """Print what a client gets to see: the tools that it can call, and the result of a call."""
    print("offered:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
    result = await client.call_tool(name, {"city": city})
    print(f"  {name}('{city}') -> {'failed: ' if result.is_error else ''}{result.content[0].text}")


async def main() -> None:
    """Call a broken tool until its circuit opens, then break its fallback, too."""
    async with Client(server) as client:
        for city in ("Oslo", "Rome", "Lima"):  # the third call goes to get_climate
            await call(client, "get_forecast", city)
        down.add("climate.example")
        for city in ("Paris", "Bonn", "Bern"):  # the third call is refused
            await call(client, "get_forecast", city)


asyncio.run(main())
