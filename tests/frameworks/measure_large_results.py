"""What large results of one server cost behind the MCP proxy, and how long a call of another server waits meanwhile.

python -m tests.frameworks.measure_large_results [KIND:MIB …]      kinds: text, escaped, wide, values; prints a line of JSON each
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import psutil

from tests.frameworks.proxies import PROXY, ROOT, environment

RAW: Final = str(ROOT / "tests/support/raw_mcp_server.py")
DEFAULT: Final = ("text:1", "text:7.5", "escaped:7", "wide:7", "values:0.18", "values:8", "text:40", "text:100")
OF: Final = {"text": "x", "escaped": '\\"a\\":', "wide": "\U0001f600"}
LIMIT_S: Final = 300.0


class Client:
    """Talks to the proxy in lines, without the SDK: its client takes quadratic time for a large line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._into, self._out_of = process.stdin, process.stdout
        self._number, self._waiting = 0, dict[int, asyncio.Future[bytes]]()

    async def ask(self, method: str, **params: Any) -> bytes:
        """Return the line of the answer."""
        self._number += 1
        number = self._number
        found = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self.tell(method, id=number, params=params)
        return await asyncio.wait_for(found, LIMIT_S)

    async def tell(self, method: str, **more: Any) -> None:
        """Send a message."""
        self._into.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode() + b"\n")
        await self._into.drain()

    async def read(self) -> None:
        """Hand the answers to those who wait for them."""
        pieces: list[bytes] = []
        while piece := await self._out_of.read(1 << 20):
            *ends, rest = piece.split(b"\n")
            for end in ends:
                line = b"".join([*pieces, end])
                pieces = []
                place = line.find(b'"id":')
                number = int(line[place + 5 : place + 15].split(b",")[0].split(b"}")[0]) if 0 <= place < 100 else -1
                if number in self._waiting:
                    self._waiting.pop(number).set_result(line)
            pieces.append(rest)


async def measured(kind: str, mib: float) -> dict[str, Any]:
    """Call a server that answers so much, and another one all the time."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mcp.json"
        server = {"command": sys.executable, "args": ["-S", RAW]}
        config.write_text(json.dumps({"mcpServers": {"a": server, "b": server}}))
        process = await asyncio.create_subprocess_exec(
            *PROXY, "--config", str(config), "--call-timeout", "300",
            env=environment(), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 22,
        )  # fmt: skip
        client = Client(process)
        reading = asyncio.ensure_future(client.read())
        try:
            return {"kind": kind, "mib": mib} | await _measured(client, psutil.Process(process.pid), kind, mib)
        finally:
            reading.cancel()
            process.kill()
            await process.wait()


async def _measured(client: Client, proxy: psutil.Process, kind: str, mib: float) -> dict[str, Any]:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "measure", "version": "1"}}
    await client.ask("initialize", **hello)
    await client.tell("notifications/initialized")
    await client.ask("tools/list")
    for _ in range(20):
        await client.ask("tools/call", name="b_echo", arguments={"text": "x"})
    delays: list[float] = []
    busy = [proxy.memory_info().rss]

    async def other() -> None:
        while True:
            began = time.perf_counter()
            await client.ask("tools/call", name="b_echo", arguments={"text": "x"})
            delays.append((time.perf_counter() - began) * 1000)
            busy.append(proxy.memory_info().rss)
            await asyncio.sleep(0.005)

    async def memory() -> None:
        while True:
            busy.append(proxy.memory_info().rss)
            await asyncio.sleep(0.01)

    background = [asyncio.ensure_future(other()), asyncio.ensure_future(memory())]
    await asyncio.sleep(0.5)
    alone, cpu, began = max(delays[5:]), proxy.cpu_times(), time.perf_counter()
    delays.clear()
    arguments = {"bytes": int(mib * 1_048_576)} | ({"of": OF[kind]} if kind in OF else {})
    answer = await client.ask("tools/call", name="a_values" if kind == "values" else "a_text", arguments=arguments)
    took, used = time.perf_counter() - began, proxy.cpu_times()
    await asyncio.sleep(0.1)
    for task in background:
        task.cancel()
    return {
        "answer_mib": round(len(answer) / 1_048_576, 2),
        "error": b'"isError":true' in answer[-200:] or b'"error"' in answer[:200],
        "s": round(took, 2),
        "processor_s": round(used.user + used.system - cpu.user - cpu.system, 2),
        "memory_mib": round((max(busy) - busy[0]) / 1_048_576),
        "other_ms": round(max(delays), 1),
        "other_alone_ms": round(alone, 1),
    }


async def main(given: list[str]) -> None:
    """Measure each one."""
    for each in given or DEFAULT:
        kind, _, mib = each.partition(":")
        print(json.dumps(await measured(kind, float(mib))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
