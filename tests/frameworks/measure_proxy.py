"""What the MCP proxy adds to a tool call, beside a bare proxy of FastMCP. `tests.bench.mcp_proxy` starts it.

python -m tests.frameworks.measure_proxy [stdio|http]      prints JSON
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mcp import ClientSession

from switchgear_cli.local.ports import any_free_port
from tests.frameworks.proxies import PROXY, ROOT, SMALL, over_http, over_stdio, running

BARE: Final = (sys.executable, str(ROOT / "tests/frameworks/servers/bare.py"))
CALLS: Final = 40
ROUNDS: Final = 12
LIMIT_S: Final = 200.0


@asynccontextmanager
async def stdio_ways() -> AsyncIterator[dict[str, ClientSession]]:
    """Yield sessions with the server itself, and behind each proxy."""
    commands = {
        "direct": SMALL,
        "plain": (*BARE, "plain", *SMALL),
        "kept": (*BARE, "kept", *SMALL),
        "ours": (*PROXY, "--name", "small", "--", *SMALL),
    }
    async with AsyncExitStack() as stack:
        with Path(os.devnull).open("w") as log:  # noqa: ASYNC230 - once, before anything is measured
            yield {name: await stack.enter_async_context(over_stdio(each, log=log)) for name, each in commands.items()}


@asynccontextmanager
async def http_ways() -> AsyncIterator[dict[str, ClientSession]]:
    """Yield sessions over HTTP, with the same server at the end of each."""
    async with AsyncExitStack() as stack:
        port = any_free_port()
        up = r"Uvicorn running"
        await stack.enter_async_context(running((*SMALL, str(port)), up))
        server = f"http://127.0.0.1:{port}/mcp"
        urls = {"direct": server}
        for kind in ("plain", "kept"):
            port = any_free_port()
            await stack.enter_async_context(running((*BARE, kind, str(port), server), up))
            urls[kind] = f"http://127.0.0.1:{port}/mcp"
        ours = (*PROXY, "--name", "small", "--http", f"127.0.0.1:{any_free_port()}", server)
        urls["ours"] = (await stack.enter_async_context(running(ours, r"serves (http://\S+/mcp)"))).group(1)
        yield {name: await stack.enter_async_context(over_http(url)) for name, url in urls.items()}


async def measure(ways: dict[str, ClientSession]) -> dict[str, list[float]]:
    """Return the milliseconds of each call. The ways take turns, so that a noisy moment hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    until = time.monotonic() + LIMIT_S
    for number in range(ROUNDS + 1):
        for name, session in ways.items():
            for _ in range(CALLS):
                start = time.perf_counter()
                result: Any = await session.call_tool("echo", {"text": "hello"})
                took = (time.perf_counter() - start) * 1000
                if result.is_error:
                    raise RuntimeError(f"{name}: {result}")
                if number:  # the first round warms up
                    found[name].append(took)
        if time.monotonic() > until:
            break
    return found


async def main(only: Sequence[str]) -> None:
    """Measure both transports, or one."""
    for transport, ways in (("stdio", stdio_ways), ("http", http_ways)):
        if only and transport not in only:
            continue
        async with ways() as sessions:
            print(json.dumps({"transport": transport, "ms": await measure(sessions)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
