"""What many consoles cost the API: the time of the page ``now``, and the delay of changes on the stream.

    python -m tests.bench.console [--tools 2000] [--consoles 50] [--changes 500] [--seconds 30]

The real engine has an hour of calls of every tool. The consoles read one stream each over the application, as the server calls it. Changes are
given to the stream as the follower gives them. The processor's time is that of this process, which is the API and the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import resource
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from switchgear_api.console.console import Console
from switchgear_api.console.records import decode_record
from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import Store, open_store

FILL = """
    INSERT INTO tool_metrics (tool_name, status, error_class, error_message, execution_time_ms, service, user_id, session_id, recorded_at)
    SELECT concat('mcp:server-', toString(number % {tools} % 100), ':tool-', toString(number % {tools})) AS tool_name,
        if(rand(1) % 20 = 0, 'error', 'success'), if(rand(1) % 20 = 0, 'server', ''), if(rand(1) % 20 = 0, 'status 503', ''), rand(2) % 1000,
        concat('service-', toString(rand(3) % 8)), toString(rand(4) % 500), toString(rand(5) % 5000),
        now64(6) - toIntervalSecond(intDiv(number, {tools}) * 60)
    FROM numbers({rows})
"""
MOST_S = 1.0
MOST_DELAY_S = 0.2


async def fill(folder: Path, tools: int) -> Store:
    """Return a store in which every tool was called once a minute for an hour."""
    store = await open_store(Settings(clickhouse_url=f"chdb:{folder}"))
    await migrate(store)
    await store.command(FILL.format(tools=tools, rows=tools * 60))
    return store


def changed(number: int, tools: int) -> Circuit:
    """Return the record of a circuit that has just opened."""
    name = f"mcp:server-{number % tools % 100}:tool-{number % tools}"
    cause = Cause(rule="consecutive_failures", value=3, threshold=3, sample=3, reporters=2)
    return Circuit(
        circuit_id=name, tool_name=name, state="open", previous_state="closed", version=number + 1, generation=1, cause=cause,
        changed_at=datetime.now(UTC), open_until=datetime.now(UTC) + timedelta(seconds=30), last_error=str(time.monotonic()),
    )  # fmt: skip


async def watch(console: Console, delays: list[float]) -> None:
    """Read the stream, and note how long ago each change was made."""
    async for text in console._live.stream(None, None):
        if b"event: circuit" in text:
            made = json.loads(text.decode().partition("data: ")[2])["last_error"]
            delays.append(time.monotonic() - float(made))


async def measured(tools: int, consoles: int, changes: int, seconds: float) -> dict[str, float]:
    """Return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        store = await fill(Path(folder) / "clickhouse", tools)
        console = Console(store, Settings(), follow=False)
        async with console:
            times, work = [], []
            for _ in range(5):
                console.boards.forget()
                started, used = time.monotonic(), _cpu_s()
                snapshot = await console.boards.snapshot(60, None)
                body = snapshot.packed
                times.append(time.monotonic() - started)
                work.append(_cpu_s() - used)
            assert len(snapshot.content["tools"]) == tools
            assert snapshot.content["fleet"]["calls"] >= tools * 58
            delays: list[float] = []
            watchers = [asyncio.create_task(watch(console, delays)) for _ in range(consoles)]
            await asyncio.sleep(0.1)
            before, started = _cpu_s(), time.monotonic()
            for number in range(int(changes * seconds / 60)):
                console._live.changed(decode_record(changed(number, tools).to_bytes()))
                await asyncio.sleep(60 / changes)
            used, took = _cpu_s() - before, time.monotonic() - started
            for each in watchers:
                each.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        await store.close()
    return {
        "now_s": statistics.median(times),
        "now_processor_s": statistics.median(work),
        "now_mib": len(gzip.decompress(body)) / 2**20,
        "now_packed_kib": len(body) / 1024,
        "changes_received": len(delays),
        "delay_p50_ms": 1000 * statistics.median(delays),
        "delay_p99_ms": 1000 * statistics.quantiles(delays, n=100)[98],
        "processors": used / took,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Print the figures; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=2000)
    parser.add_argument("--consoles", type=int, default=50)
    parser.add_argument("--changes", type=int, default=500, help="a minute")
    parser.add_argument("--seconds", type=float, default=30)
    given = parser.parse_args()
    found = asyncio.run(measured(given.tools, given.consoles, given.changes, given.seconds))
    for name, value in found.items():
        print(f"{name:20} {value:,.3f}")
    return 0 if found["now_s"] <= MOST_S and found["delay_p99_ms"] <= 1000 * MOST_DELAY_S else 1


if __name__ == "__main__":
    sys.exit(main())
