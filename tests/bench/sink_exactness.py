"""Exactness under death: the sink killed with SIGKILL again and again under load, then a recount.

    python -m tests.bench.sink_exactness [EVENTS] [KILLS] [SEED]

The default is a million events and thirty kills at random moments. It prints rows = distinct metric_ids = emitted, and how many
rollup keys differ from a recount of the raw rows; the exit code is 1 where anything differs. A shorter one is among the tests.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import open_store
from tests.support.kafka import running_kafka
from tests.support.processes import switchgear
from tests.support.sinking import Message, dead_letters, fully_committed, produce, rollups_differ

CHUNK = 20_000
BAD_EVERY = 10_000
LOW = (1 << 64) - 1
COUNTED = f"""
SELECT count(), uniqExact(metric_id), uniqExact(kafka_partition, kafka_offset),
    groupBitXor(toUInt64(bitAnd(toUInt128(metric_id), {LOW}))) FROM tool_metrics
"""


class Load:
    """Events made while they are sent. Only their count and an exclusive or of their ids are kept."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.good = 0
        self.bad = 0
        self.ids = 0
        self._chance = random.Random(seed)
        self._now = datetime.now(UTC)

    def chunk(self, start: int) -> list[Message]:
        """Return the next events. One in ten thousand isn't an event."""
        return [self._event(place) for place in range(start, min(start + CHUNK, self.count))]

    def _event(self, place: int) -> Message:
        tool = f"tool-{place % 60}"
        if place % BAD_EVERY == 0:
            self.bad += 1
            return Message(b'{"tool_name":', tool.encode())
        identity = uuid.UUID(int=self._chance.getrandbits(128), version=4)
        self.good += 1
        self.ids ^= identity.int & LOW
        status = ("error", "timeout", "rejected")[place % 3] if place % 11 == 0 else "success"
        fields = {
            "metric_id": str(identity),
            "tool_name": tool,
            "status": status,
            "execution_time_ms": round(self._chance.lognormvariate(5, 1), 3),
            "input_size": place % 3_000,
            "recorded_at": (self._now - timedelta(milliseconds=place)).isoformat(),
        }
        return Message(json.dumps(fields).encode(), tool.encode())


async def emit(settings: Settings, load: Load) -> None:
    """Send all events, chunk by chunk."""
    for start in range(0, load.count, CHUNK):
        await produce(settings, await asyncio.to_thread(load.chunk, start))


async def kill_again_and_again(settings: Settings, kills: int, chance: random.Random, logs: Path) -> int:
    """Start sinks, and kill each after a moment. Return how many were killed while there was work left."""
    at_work = 0
    for number in range(kills):
        with switchgear("sink", log=logs / f"sink-{number}.log", settings=settings) as child:
            await asyncio.to_thread(child.wait_for_output, "partitions assigned")
            await asyncio.sleep(chance.uniform(0.0, 0.6))
            assert child.alive, child.output()
            child.kill9()
        at_work += not await fully_committed(settings)
    return at_work


async def finish(settings: Settings, logs: Path) -> None:
    """Run another sink to the end."""
    with switchgear("sink", log=logs / "sink-last.log", settings=settings) as child:
        await asyncio.to_thread(child.wait_for_output, "partitions assigned")
        deadline = time.monotonic() + 600
        while not await fully_committed(settings):
            assert child.alive, child.output()
            assert time.monotonic() < deadline, "the last sink did not finish in ten minutes"
            await asyncio.sleep(0.2)
        assert child.terminate() == 0


def replays(logs: Path) -> int:
    """Return the starts that found a batch of their predecessor to replay."""
    return sum("to_replay=0" not in log.read_text() for log in logs.glob("sink-*.log"))


async def main(count: int = 1_000_000, kills: int = 30, seed: int = 5) -> bool:
    """Print the figures. Return whether all of them agree."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    chance, load, began = random.Random(seed), Load(count, seed), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, running_kafka() as kafka:
        settings = kafka.settings(
            clickhouse_url=f"chdb:{Path(folder) / 'clickhouse'}", sink_batch_max_rows=5_000, sink_batch_max_age_s=0.05
        )
        await ensure_topics(settings)
        emitting = asyncio.create_task(emit(settings, load))
        at_work = await kill_again_and_again(settings, kills, chance, Path(folder))
        await emitting
        await finish(settings, Path(folder))
        replayed = replays(Path(folder))
        letters = len(await dead_letters(settings))
        async with await open_store(settings) as store:
            rows, ids, offsets, combined = (await store.query(COUNTED)).result_rows[0]
            differing = await rollups_differ(store)
    exact = rows == ids == offsets == load.good and combined == load.ids and letters == load.bad
    exact = exact and not differing
    print(
        f"{kills} kills ({at_work} at work, {replayed} starts replayed a batch), {time.monotonic() - began:.0f} s, seed {seed}"
    )
    print(f"emitted {load.good:,} good and {load.bad:,} bad")
    print(
        f"stored {rows:,} rows, {ids:,} distinct metric_ids, {offsets:,} distinct offsets; ids agree: {combined == load.ids}"
    )
    print(f"dead letters {letters:,}; rollups and projections that differ from a recount: {differing or 'none'}")
    print("EXACT" if exact else "NOT EXACT")
    return exact


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main(*map(int, sys.argv[1:]))) else 1)
