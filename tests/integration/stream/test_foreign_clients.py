"""Foreign clients: Java's console producer and consumer, with Java's partitioner, null keys and minimal events."""

from __future__ import annotations

import asyncio
import json

import pytest

from switchgear_schemas.partitioner import owner_partition
from switchgear_stream.inspect import read_rows
from tests.support.java_client import SEPARATOR, consume, produce
from tests.support.recount import read_topic
from tests.support.stream import dead_letters, eventually, metric

NAMES = [f"http:server-{number}:call" for number in range(24)] + ["værktøj", "工具", "x"]


@pytest.mark.deep
async def test_java_producers_and_consumers_work_like_python_ones(settings, start_worker):
    worker = start_worker(settings)
    bootstrap, executions = settings.kafka_bootstrap_servers, settings.topics.executions
    keyed = [f'{name}{SEPARATOR}{{"tool_name": "{name}", "status": "success"}}' for name in NAMES]
    minimal = ['{"tool_name": "x", "status": "error"}'] * 30 + ["not an execution"]

    await asyncio.to_thread(produce, bootstrap, executions, keyed, keyed=True)
    sent = await read_topic(bootstrap, executions)
    assert {record.key.decode(): record.partition for record in sent} == {
        name: owner_partition(name, settings.topic_partitions) for name in NAMES
    }, "Java's default partitioner puts a tool where its owner is"

    await asyncio.to_thread(produce, bootstrap, executions, minimal, keyed=False)

    async def counted():
        rows = await read_rows(settings)
        return rows if "x" in rows and rows["x"].total_calls == 31 else None

    rows = await eventually(counted, what="every call counted")
    assert (rows["x"].total_failed, rows["x"].state) == (30, "open")
    assert {name: row.total_calls for name, row in rows.items() if name != "x"} == dict.fromkeys(NAMES[:-1], 1)
    without_key = [record for record in await read_topic(bootstrap, executions) if record.key is None]
    misplaced = [
        record for record in without_key if record.partition != owner_partition("x", settings.topic_partitions)
    ]
    junk = sum(record.value == minimal[-1].encode() for record in misplaced)
    assert len(without_key) == len(minimal)
    assert metric(worker, "switchgear_worker_rekeyed_total") == len(misplaced) - junk
    assert [letter.value for letter in await dead_letters(settings)] == [b"not an execution"]

    ((key, value),) = await asyncio.to_thread(consume, bootstrap, settings.topics.circuits, count=1)
    record = json.loads(value)
    assert (key, record["tool_name"], record["state"], record["counts"]["total_failed"] >= 8) == (
        "x",
        "x",
        "open",
        True,
    )
