"""Start the proxy as users do, and talk to it with the official client."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.limits import FACTOR

ROOT = Path(__file__).resolve().parents[2]
SMALL = (sys.executable, str(ROOT / "tests/frameworks/servers/small.py"))
PROXY = (sys.executable, "-m", "switchgear_cli", "mcp-proxy")
PATIENT = (sys.executable, str(ROOT / "tests/frameworks/patient.py"), "mcp-proxy")
"""For tests of anything but a slow start: a server that starts in a second needs more than three on a loaded machine."""
_CACHES = tempfile.TemporaryDirectory()
LIMIT_S = 120.0 * FACTOR
"""For what takes a second on a machine that has nothing else to do."""


def environment(**more: str) -> dict[str, str]:
    """Return an environment without the settings of the person who runs the tests."""
    paths = [str(ROOT / folder) for folder in ("schemas", "producers", "stream", "sinks", "deploy", "")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHGEAR_")}
    # What an earlier proxy has seen of a server must not be known.
    new = {"PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": tempfile.mkdtemp(dir=_CACHES.name)}
    return {**kept, **new, **more}


@asynccontextmanager
async def over_stdio(
    command: Sequence[str], *, log: Any = None, env: Mapping[str, str] | None = None, **callbacks: Any
) -> AsyncIterator[ClientSession]:
    """Connect to a server that is started by a command."""
    started = StdioServerParameters(command=command[0], args=list(command[1:]), env=environment(**(env or {})))
    async with (
        stdio_client(started, errlog=log or sys.stderr) as (read, write),
        ClientSession(read, write, read_timeout_seconds=LIMIT_S, **callbacks) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def over_http(url: str, **callbacks: Any) -> AsyncIterator[ClientSession]:
    """Connect to a server at an address."""
    async with (
        streamable_http_client(url) as (read, write),
        ClientSession(read, write, read_timeout_seconds=LIMIT_S, **callbacks) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def running(
    command: Sequence[str], ready: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[re.Match[str]]:
    """Run a command until the block ends, and wait until it prints ``ready`` to standard error."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environment(**(env or {})), stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    seen = ""
    try:
        async with asyncio.timeout(LIMIT_S):
            while (found := re.search(ready, seen)) is None:
                line = await process.stderr.readline()
                assert line, f"{command} ended: {seen}"
                seen += line.decode()
        drained = asyncio.ensure_future(process.stderr.read())
        yield found
        drained.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(LIMIT_S):
            await process.wait()


async def until(condition: Any, limit_s: float = LIMIT_S) -> None:
    """Wait until a function returns something that is true."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


def text_of(result: Any) -> str:
    """Return the text of a tool's result."""
    return "\n".join(part.text for part in result.content if part.type == "text")


def plain(result: Any) -> Any:
    """Return a result as it was on the wire, to be compared."""
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)
