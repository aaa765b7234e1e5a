"""Batches of several partitions that land at the same time, in the real engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from switchgear.fleet import Message
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import open_store
from switchgear_sinks.writer.batches import Batch
from switchgear_sinks.writer.dead_letters import DeadLetters
from switchgear_sinks.writer.inserter import WATCHED_BATCHES, Inserter
from switchgear_sinks.writer.offset_commits import Intent
from switchgear_sinks.writer.rows import CircuitRows
from switchgear_sinks.writer.settings import Limits, WriterMetrics

pytestmark = pytest.mark.integration
PARTITIONS = 4
STAMP = 1_795_262_400_000


def circuit(name: str, partition: int, offset: int) -> Batch:
    """A batch of one record."""
    value = {
        "circuit_id": name, "tool_name": name, "state": "open", "version": 1, "generation": 1,
        "changed_at": "2026-11-21T10:00:00Z",
    }  # fmt: skip
    record = Message("circuits", partition, offset, STAMP, name.encode(), json.dumps(value).encode())
    return Batch(Intent(offset, offset, STAMP), [record], 1)


async def test_concurrent_batches_after_a_violated_constraint_are_all_stored(
    make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    here = make_settings(clickhouse_url=f"chdb:{tmp_path}/clickhouse")
    metrics = WriterMetrics(CollectorRegistry())
    dead = DeadLetters(here.kafka, here.topics.dead, metrics)
    await dead.start()
    try:
        async with await open_store(here) as store:
            await migrate(store)
            await store.command("ALTER TABLE circuit_transitions ADD CONSTRAINT no_poison CHECK circuit_id != 'poison'")
            inserter = Inserter(store, CircuitRows(), dead, metrics, Limits())

            async def land(name: str, partition: int, offset: int) -> None:
                await inserter.insert("circuits", partition, circuit(name, partition, offset), lambda: asyncio.sleep(0))

            await land("poison", 0, 0)
            for offset in range(1, WATCHED_BATCHES + 2):
                await asyncio.gather(*(land("fine", partition, offset) for partition in range(PARTITIONS)))
            stored = await store.query("SELECT count() FROM circuit_transitions")
            assert stored.result_rows[0][0] == PARTITIONS * (WATCHED_BATCHES + 1)
    finally:
        await dead.stop()
