"""If workers die, no call is lost, none is counted twice, and versions rise."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from switchgear_stream.inspect import read_circuits, read_rows, totals
from tests.support.limits import HAPPEN_S
from tests.support.processes import Child
from tests.support.stream import emit, eventually, get, metric, recount, version_faults

FAILOVER_S = 10.0
"""Time after the session timeout for the rebalance, the recovery of the table and the take-over."""
TOOLS = [f"tool-{number}" for number in range(12)]


def _events(count: int, seed: int) -> list[dict[str, object]]:
    chance = random.Random(seed)
    return [
        {
            "tool_name": (tool := chance.choice(TOOLS)),
            "status": "error" if tool in TOOLS[:2] or chance.random() < 0.02 else "success",
            "emitter_id": f"host-{number % 5}",
        }
        for number in range(count)
    ]


async def _load(settings, events, *, seconds: float) -> None:
    slices = 40
    for number in range(slices):
        await asyncio.gather(emit(settings, events[number::slices]), asyncio.sleep(seconds / slices))


async def _check_exact(settings, sent: int) -> None:
    async def all_counted():
        return totals(await read_rows(settings))["total_calls"] >= sent

    await eventually(all_counted, timeout_s=HAPPEN_S, what="all calls counted")
    rows, statuses = await read_rows(settings), await recount(settings)
    assert {name: row.total_calls for name, row in rows.items()} == {
        name: found.total() for name, found in statuses.items()
    }
    assert {name: row.total_failed for name, row in rows.items()} == {
        name: found["error"] for name, found in statuses.items()
    }
    for records in (await read_circuits(settings)).values():
        assert version_faults(records) == []


async def _owned(workers: list[Child], wanted: list[int]) -> bool:
    """The living workers own that many partitions each, and all of them say that they are ready."""
    living = [worker for worker in workers if worker.alive]
    owned = sorted(int(metric(worker, "switchgear_worker_partitions")) for worker in living)
    return owned == wanted and all(get(worker, "/readyz")[0] == 200 for worker in living)


async def test_counters_are_exact_after_kill_9_under_load(make_settings, start_worker):
    settings = make_settings(worker_session_timeout_s=6)
    chance = random.Random(7)
    options = ("--instance-id", "worker-1")  # a static member takes its place back at once, so that more deaths fit in
    worker = start_worker(settings, *options)
    load = asyncio.create_task(_load(settings, _events(60_000, seed=7), seconds=18))
    mid_work = 0
    for _ in range(4):
        before = metric(worker, "switchgear_worker_executions_total")

        async def working(worker=worker, before=before):
            return metric(worker, "switchgear_worker_executions_total") > before

        await eventually(working)
        await asyncio.sleep(chance.uniform(0, 0.3))
        mid_work += not load.done()
        worker.kill9()
        worker = await asyncio.to_thread(start_worker, settings, *options)
    await load
    await _check_exact(settings, 60_000)
    assert mid_work >= 2


@pytest.mark.deep
async def test_three_workers_share_the_load_and_a_spare_takes_the_place_of_one_that_dies(make_settings, start_worker):
    settings = make_settings(worker_session_timeout_s=6, topic_partitions=3)
    workers = [start_worker(settings, wait=False) for _ in range(4)]
    for worker in workers:
        await asyncio.to_thread(worker.wait_for_output, "ready  ")

    await eventually(
        lambda: _owned(workers, [0, 1, 1, 1]), timeout_s=HAPPEN_S, what="three owning a partition each, one none"
    )
    load = asyncio.create_task(_load(settings, _events(20_000, seed=9), seconds=4))
    await asyncio.sleep(1)
    next(worker for worker in workers if metric(worker, "switchgear_worker_partitions") == 1).kill9()
    died = time.monotonic()
    await eventually(lambda: _owned(workers, [1, 1, 1]), timeout_s=HAPPEN_S, what="the spare owning the partition")
    assert time.monotonic() - died < settings.worker_session_timeout_s + FAILOVER_S
    await load
    await _check_exact(settings, 20_000)
