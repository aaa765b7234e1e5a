"""A worker takes over what a release without families left behind: no call is lost, none is counted twice, and versions go on.

``upgrade_25dcd2e.json`` holds the topics that a worker of that release wrote. It ended in the middle of its work, several times, and some
producers sent by family while it ran: copies wait in the former partitions of their tools, and other records were copied but are read again.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from switchgear.fleet import Row
from switchgear.fleet.rows import MARK, is_circuit
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.families import family_of
from switchgear_schemas.partitioner import owner_partition, partition_of
from switchgear_stream.inspect import read_circuits, read_rows
from switchgear_stream.topic_reader import read_to_end
from tests.support.stream import dead_letters, emit, eventually, get, recount, version_faults

LEFT: dict[str, Any] = json.loads((Path(__file__).parent / "upgrade_25dcd2e.json").read_text())
PARTITIONS = LEFT["partitions"]
FAMILY = "mcp:github"
SEARCH, ISSUES, CLOSE = TOOLS = [f"{FAMILY}:{name}" for name in ("search", "issues", "close")]
POLICY_FILE = '[tools."mcp:github:close"]\nscope = "user"\n'
Kafka = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]


def left(topic: str, partition: int) -> list[Kafka]:
    """Return key, value and headers of what the old worker left in a partition."""
    return [
        (_bytes(key), _bytes(value), [(name, base64.b64decode(header)) for name, header in headers])
        for key, value, headers in LEFT["topics"][topic][partition]
    ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def old_rows() -> dict[str, Row]:
    """Return the rows that the old worker left."""
    newest = {}
    for partition in range(PARTITIONS):
        for key, value, _ in left("changelog", partition):
            if value is not None and key is not None and is_circuit(key):
                row = newest[key.decode()] = Row.decode(value)
                assert partition == owner_partition(row.tool_name, PARTITIONS)
    return newest


def calls_left_to_the_family() -> int:
    """Return the number of records of the family's tools that no old worker had committed, each original once."""
    found = set()
    committed = LEFT["committed"]["executions"]
    for partition in range(PARTITIONS):
        for offset, (_, value, headers) in enumerate(left("executions", partition)):
            assert value is not None
            origin = next((header for name, header in headers if name == "switchgear.rekeyed"), None)
            place = (partition, offset) if origin is None else tuple(map(int, origin.split(b":")))
            if offset >= committed[partition] and family_of(json.loads(value)["tool_name"]) == FAMILY:
                found.add(place)
    return len(found)


async def restore(settings) -> None:
    """Write the topics as the old worker left them, with the same offsets, and commit what it had committed."""
    producer = AIOKafkaProducer(**settings.kafka.options(), acks="all", enable_idempotence=True)
    await producer.start()
    for topic in LEFT["topics"]:
        for partition in range(PARTITIONS):
            for key, value, headers in left(topic, partition):
                name = getattr(settings.topics, topic)
                await producer.send(name, value, key=key, partition=partition, headers=headers)
    await producer.stop()
    group = AIOKafkaConsumer(
        **settings.kafka.options(), group_id=settings.topics.worker_group, enable_auto_commit=False
    )
    await group.start()
    offsets = {
        TopicPartition(getattr(settings.topics, topic), partition): OffsetAndMetadata(offset, "")
        for topic, committed in LEFT["committed"].items()
        for partition, offset in enumerate(committed)
        if offset
    }
    group.assign(list(offsets))
    await group.commit(offsets)
    await group.stop()


@pytest.fixture
async def upgraded(make_settings, tmp_path):
    policies = tmp_path / "policies.toml"
    policies.write_text(POLICY_FILE)
    settings = make_settings(topic_partitions=PARTITIONS, policy_file=policies, worker_session_timeout_s=6)
    await restore(settings)
    return settings


async def _caught_up(settings, worker) -> None:
    async def no_lag():
        line = f'switchgear_worker_lag_records{{topic="{settings.topics.executions}"}} 0.0'
        return line in get(worker, "/metrics")[1].splitlines()

    for _ in range(2):  # the lag is measured once a second, and copies are read after it was zero
        await asyncio.sleep(1.5)
        await eventually(no_lag, what="the worker reading to the end")


async def test_an_upgrade_loses_no_call_counts_none_twice_and_goes_on_above_every_version(upgraded, start_worker):
    settings, before = upgraded, old_rows()
    worker = await asyncio.to_thread(start_worker, settings)
    await _caught_up(settings, worker)
    statuses, rows = await recount(settings), await read_rows(settings)
    calls: Counter[str] = Counter()
    for row in rows.values():
        if row.scope != "family":
            calls[row.tool_name] += row.total_calls
    assert calls == {tool: found.total() for tool, found in statuses.items()}
    assert rows[id_of(FAMILY, "family")].total_calls == calls_left_to_the_family()
    assert before[ISSUES].state == rows[ISSUES].state == "open"
    assert before["search"].state == rows["search"].state == "forced_open"
    assert rows[SEARCH].policy == before[SEARCH].policy is not None
    assert rows[f"{CLOSE}|user=ana"].total_calls == statuses[CLOSE].total()

    await emit(settings, [{"tool_name": ISSUES, "status": "success", "generation": 0}])
    await emit(settings, [{"tool_name": ISSUES, "status": "rejected", "emitter_id": "p1", "probe_requested": True}])

    async def probed():
        return (await read_circuits(settings))[ISSUES][-1].state == "half_open"

    await eventually(probed, what="a probe granted")
    for circuit_id, records in (await read_circuits(settings)).items():
        newest: dict[int, Any] = {}
        for record in records:
            assert newest.setdefault(record.version, record).model_dump(exclude={"family"}) == record.model_dump(
                exclude={"family"}
            ), circuit_id
    assert max(record.version for record in (await read_circuits(settings))[ISSUES]) == before[ISSUES].version + 1
    assert await dead_letters(settings) == []


async def test_rows_leave_their_former_partitions_and_a_second_worker_moves_nothing(upgraded, start_worker):
    settings = upgraded
    worker = await asyncio.to_thread(start_worker, settings)
    await _caught_up(settings, worker)
    newest: dict[tuple[int, bytes], bytes | None] = {}
    async for record in read_to_end(settings, settings.topics.changelog):
        if record.key != MARK:
            newest[record.partition, record.key] = record.value
    held = {place: Row.decode(value) for place, value in newest.items() if value is not None and is_circuit(place[1])}
    assert all(partition == partition_of(row.tool_name, PARTITIONS) for (partition, _), row in held.items())
    assert {key.decode() for _, key in held} >= {*TOOLS, "search", f"{CLOSE}|user=ana", id_of(FAMILY, "family")}
    assert worker.output().count("rows_moved") == 1

    rows = await read_rows(settings)
    worker.kill9()
    second = await asyncio.to_thread(start_worker, settings)
    await _caught_up(settings, second)
    assert "rows_moved" not in second.output()
    after = await read_rows(settings)
    assert {name: row.total_calls for name, row in after.items()} == {
        name: row.total_calls for name, row in rows.items()
    }
    for records in (await read_circuits(settings)).values():
        assert version_faults(sorted(records, key=lambda record: record.version)) == []
    assert await dead_letters(settings) == []


@pytest.mark.deep
async def test_two_workers_share_an_upgrade(upgraded, start_worker):
    settings = upgraded
    workers = [await asyncio.to_thread(start_worker, settings, wait=False) for _ in range(2)]
    for worker in workers:
        await asyncio.to_thread(worker.wait_for_output, "ready  ")
        await _caught_up(settings, worker)
    statuses = await recount(settings)

    async def exact():
        calls: Counter[str] = Counter()
        for row in (await read_rows(settings)).values():
            if row.scope != "family":
                calls[row.tool_name] += row.total_calls
        return calls == {tool: found.total() for tool, found in statuses.items()}

    await eventually(exact, what="every call counted once")
    assert await dead_letters(settings) == []


@pytest.mark.deep
async def test_another_family_pattern_moves_the_rows_again(upgraded, start_worker):
    settings = upgraded
    worker = await asyncio.to_thread(start_worker, settings)
    await _caught_up(settings, worker)
    rows = await read_rows(settings)
    assert await asyncio.to_thread(worker.terminate) == 0
    off = settings.model_copy(update={"family_pattern": ""})
    assert off.model_fields_set >= {"family_pattern"}
    second = await asyncio.to_thread(start_worker, off)
    await _caught_up(off, second)
    after = await read_rows(off)
    for tool in (*TOOLS, "search", f"{CLOSE}|user=ana"):
        assert after[tool].total_calls == rows[tool].total_calls
        assert after[tool].version >= rows[tool].version
    assert await dead_letters(off) == []
