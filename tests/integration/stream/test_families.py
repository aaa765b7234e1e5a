"""The calls of a family's tools are counted once in every circuit, whatever their producers' keys."""

from __future__ import annotations

import asyncio
import random

import pytest

from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.families import partition_key
from switchgear_stream.inspect import read_circuits, read_rows
from tests.support.limits import HAPPEN_S
from tests.support.stream import dead_letters, emit, eventually, metric, recount, version_faults

FAMILIES = ("mcp:github", "mcp:maps")
TOOLS = [f"{family}:{tool}" for family in FAMILIES for tool in ("search", "issues", "close")]


def _events(count: int, seed: int) -> list[dict[str, object]]:
    chance = random.Random(seed)
    return [
        {
            "tool_name": chance.choice(TOOLS),
            "status": "error" if chance.random() < 0.3 else "success",
            "error_class": "transport",
            "emitter_id": f"host-{number % 5}",
        }
        for number in range(count)
    ]


async def _load(settings, events, *, seconds: float) -> None:
    """Send some events keyed by their tool and others by their family, mixed."""
    slices = 40
    for number in range(slices):
        part = events[number::slices]
        await asyncio.gather(
            emit(settings, part[::2]),
            emit(settings, part[1::2], key_of=partition_key),
            asyncio.sleep(seconds / slices),
        )


async def _counted(settings, wanted: int) -> bool:
    rows = await read_rows(settings)
    return sum(rows[tool].total_calls for tool in TOOLS if tool in rows) >= wanted and (
        sum(rows[circuit_id(each, "family")].total_calls for each in FAMILIES if circuit_id(each, "family") in rows)
        >= wanted
    )


@pytest.mark.deep
async def test_tools_and_families_count_every_call_once_while_workers_are_killed(make_settings, start_worker):
    settings = make_settings(worker_session_timeout_s=6, topic_partitions=4)
    chance = random.Random(3)
    options = ("--instance-id", "worker-1")
    worker = start_worker(settings, *options)
    load = asyncio.create_task(_load(settings, _events(20_000, seed=3), seconds=10))
    for _ in range(3):
        before = metric(worker, "switchgear_worker_executions_total")

        async def working(worker=worker, before=before):
            return metric(worker, "switchgear_worker_executions_total") > before

        await eventually(working)
        await asyncio.sleep(chance.uniform(0, 0.3))
        worker.kill9()
        worker = await asyncio.to_thread(start_worker, settings, *options)
    await load
    await eventually(lambda: _counted(settings, 20_000), timeout_s=HAPPEN_S, what="all calls counted")
    rows, statuses = await read_rows(settings), await recount(settings)
    assert {tool: rows[tool].total_calls for tool in TOOLS} == {tool: statuses[tool].total() for tool in TOOLS}
    assert {tool: rows[tool].total_failed for tool in TOOLS} == {tool: statuses[tool]["error"] for tool in TOOLS}
    for family in FAMILIES:
        found, tools = rows[circuit_id(family, "family")], [tool for tool in TOOLS if tool.startswith(family)]
        assert found.total_calls == sum(rows[tool].total_calls for tool in tools)
        assert found.total_failed == sum(rows[tool].total_failed for tool in tools)
    for records in (await read_circuits(settings)).values():
        assert version_faults(records) == []
    assert await dead_letters(settings) == []
