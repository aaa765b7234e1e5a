"""A bare proxy of FastMCP, to measure the MCP proxy beside it.

bare.py plain|kept [PORT] COMMAND…      stdio, or HTTP at the port
bare.py plain|kept [PORT] URL
"""

from __future__ import annotations

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def main(kind: str, words: list[str]) -> None:
    """Serve until the client has gone. ``kept`` keeps one session with the server; ``plain`` is what ``create_proxy`` does."""
    port = int(words.pop(0)) if words[0].isdecimal() else None
    target = words[0] if words[0].startswith("http") else StdioTransport(words[0], words[1:])
    how = {"show_banner": False} if port is None else {"transport": "http", "port": port, "show_banner": False}
    if kind == "plain":
        await create_proxy(target).run_async(**how)
        return
    async with Client(target) as client:
        await create_proxy(client).run_async(**how)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
