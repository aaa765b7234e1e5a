"""A worker with another ``family_pattern`` refuses to work until the circuits are reset, and nothing is lost or counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokafka.admin import AIOKafkaAdminClient

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.families import partition_key
from switchgear_schemas.partitioner import partition_of
from switchgear_stream.inspect import read_circuits, read_rows
from tests.support.processes import run
from tests.support.stream import command, dead_letters, emit, eventually, get, metric, version_faults

TOOLS = [f"mcp:github:{name}" for name in ("search", "issues", "close", "merge")]
MOVED = next(tool for tool in TOOLS if partition_of(tool, 4) != partition_of(tool, 4, ""))
"""A tool that the other pattern places in another partition."""


async def _counted(settings, wanted: int) -> bool:
    rows = await read_rows(settings)
    return sum(rows[tool].total_calls for tool in TOOLS if tool in rows) >= wanted


async def _state(settings, state: str) -> bool:
    records = (await read_circuits(settings)).get(MOVED, [])
    return bool(records) and records[-1].state == state


async def _call_all(settings, key_of: Callable[[str], str]) -> None:
    await emit(settings, [{"tool_name": tool, "status": "success"} for tool in TOOLS], key_of=key_of)


async def test_a_worker_with_another_pattern_refuses_to_start_until_the_circuits_are_reset(settings, start_worker):
    other = settings.model_copy(update={"family_pattern": ""})
    worker = await asyncio.to_thread(start_worker, settings)
    await _call_all(settings, partition_key)
    await _call_all(settings, str)  # a client with the other pattern
    await eventually(lambda: _counted(settings, 8), what="every call counted")
    await command(settings, MOVED, "force_open", reason="maintenance")
    await eventually(lambda: _state(settings, "forced_open"), what="the circuit forced open")

    rebalances = metric(worker, "switchgear_worker_rebalances_total")
    beside = await asyncio.to_thread(run, "worker", settings=other)
    assert beside.returncode == 1
    assert "Workers with another family_pattern than '' run in the group" in beside.stderr
    assert "stop all workers first: docs/howto/recovery.md" in beside.stderr
    assert get(worker, "/readyz")[0] == 200
    assert metric(worker, "switchgear_worker_rebalances_total") == rebalances

    assert await asyncio.to_thread(worker.terminate) == 0
    before = await read_rows(settings)
    after_it = await asyncio.to_thread(run, "worker", settings=other)
    assert after_it.returncode == 70
    said = after_it.stdout + after_it.stderr
    assert "are placed by the family_pattern 'mcp:*:*', and this worker's is ''" in said
    assert "SWITCHGEAR_FAMILY_PATTERN='mcp:*:*'" in said
    assert await read_rows(settings) == before
    assert await dead_letters(settings) == []

    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()
    await admin.delete_topics([settings.topics.changelog])
    await eventually(lambda: _is_gone(admin, settings.topics.changelog), what="the topic is gone")
    await admin.close()
    await ensure_topics(other)
    second = await asyncio.to_thread(start_worker, other)
    await _call_all(other, str)
    await eventually(lambda: _counted(other, 4), what="every call counted in the new place")
    rows = await read_rows(other)
    assert {tool: rows[tool].total_calls for tool in TOOLS} == dict.fromkeys(TOOLS, 1)
    records = sorted((await read_circuits(other))[MOVED], key=lambda record: record.version)
    assert version_faults(records) == []
    assert [record.state for record in records[-2:]] == ["forced_open", "closed"]
    assert records[-1].cause is not None
    assert records[-1].cause.rule == "state_lost"

    second.kill9()  # what was published in the former partitions is no error
    await asyncio.to_thread(start_worker, other)
    assert await dead_letters(other) == []


async def _is_gone(admin: AIOKafkaAdminClient, topic: str) -> bool:
    return topic not in await admin.list_topics()
