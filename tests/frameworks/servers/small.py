"""A small MCP server for the tests of the proxy: over standard streams, or HTTP with a port as its argument."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_http_headers
from fastmcp.tools.base import ToolResult

server = FastMCP("small", instructions="Be brief.", version="1.2.3")
COUNTED = os.environ.get("SMALL_STARTS")
if COUNTED:
    with Path(COUNTED).open("a") as file:
        file.write(f"{os.getpid()}\n")


@server.tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
def pid() -> int:
    """Return the number of the process."""
    return os.getpid()


@server.tool
def fail(text: str = "it failed") -> str:
    raise RuntimeError(text)


@server.tool
def backup() -> str:
    return "from the backup"


@server.tool
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@server.tool
async def steps(count: int, ctx: Context) -> str:
    for done in range(1, count + 1):
        await ctx.report_progress(done, count, f"step {done}")
        await ctx.info(f"log {done}")
    return "done"


@server.tool
def everything() -> ToolResult:
    """Return content of several kinds, structured content and metadata."""
    return ToolResult(
        content=[
            types.TextContent(type="text", text="a text", annotations=types.Annotations(priority=0.5)),
            types.ImageContent(type="image", data=base64.b64encode(b"png").decode(), mime_type="image/png"),
            types.ResourceLink(type="resource_link", uri="small://note", name="note"),
        ],
        structured_content={"a": [1, {"b": None}], "none": None},
        meta={"example.com/trace": "t-1"},
    )


@server.tool
def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool
def headers() -> dict[str, str]:
    return get_http_headers(include_all=True)


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the client's user."""
    result: Any = await ctx.elicit("Which city?", response_type=str)
    return f"{result.action}: {getattr(result, 'data', None)}"


@server.resource("small://note")
def note() -> str:
    return "a note"


@server.resource("small://notes/{number}")
def numbered(number: str) -> str:
    return f"note {number}"


@server.prompt
def greet(name: str) -> str:
    return f"Say hello to {name}."


@server.completion
def complete(ref: Any, argument: Any, _context: Any) -> list[str]:
    return [f"{argument.value}-1", f"{argument.value}-2"]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="http", port=int(sys.argv[1]), show_banner=False)
    else:
        server.run(show_banner=False)
