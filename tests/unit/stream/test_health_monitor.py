from __future__ import annotations

from types import SimpleNamespace

import pytest
from faust.types import TP

from switchgear_stream.health_monitor import HOPELESS_S, STALLED_S, UNREADY_S, lag
from tests.support.standing_worker import StandingWorker

P0, P1 = TP("t.executions", 0), TP("t.executions", 1)
NO_PARTITIONS = frozenset()


def test_lag_is_the_distance_between_position_and_end():
    assert lag({P0: 10, P1: 5}, {P0: 7, P1: 6}) == {P0: 3, P1: 0}
    assert lag({P0: 10}, {}) == {}


async def test_lag_is_healthy_while_batches_are_finished_and_unhealthy_without_them():
    worker = StandingWorker(end=10, position=4)
    assert await worker.problem_after(0) == ""
    assert "stood still" in await worker.problem_after(STALLED_S + 1)
    worker.progressed_at = worker.clock()
    assert await worker.problem_after(0) == ""


async def test_the_lag_has_the_records_of_partitions_that_were_added():
    worker = StandingWorker(end=10, position=4)
    worker.monitor._watch = SimpleNamespace(problem=None, notice=None, counts={"t.executions": 24, "t.commands": 12})
    await worker.monitor.look()
    lag_of = {topic: worker.metrics.lag.labels(f"t.{topic}")._value.get() for topic in ("executions", "commands")}
    assert lag_of == {"executions": 12, "commands": 6}


@pytest.mark.slow
async def test_a_worker_without_lag_is_healthy_without_any_batch():
    worker = StandingWorker(end=4, position=4)
    assert await worker.problem_after(10_000) == ""
    assert worker.monitor.stalled_for == 0


async def test_a_stream_that_stands_still_for_too_long_ends_the_process():
    worker = StandingWorker(end=10, position=4)
    await worker.monitor.look()
    await worker.problem_after(HOPELESS_S + 1)
    assert "stood still" in worker.watchdog.failed.result()


async def test_a_worker_that_was_behind_and_lost_its_partitions_is_healthy_and_exports_no_lag():
    worker = StandingWorker(end=10, position=4)
    await worker.monitor.look()
    worker.partitions = NO_PARTITIONS
    assert await worker.problem_after(HOPELESS_S + 1) == ""
    assert not worker.watchdog.failed.done()
    values = {each.name: each for family in worker.metrics.registry.collect() for each in family.samples if each.value}
    assert not values.keys() & {"switchgear_worker_lag_records", "switchgear_worker_last_progress_age_seconds"}


async def test_a_broker_that_does_not_answer_makes_the_worker_unhealthy():
    worker = StandingWorker(end=4, position=4)
    await worker.monitor.look()
    worker.clock.now += STALLED_S + 1
    assert "not answered" in (worker.monitor.problem() or "")


async def test_a_stalled_stream_is_explained_by_a_broker_that_does_not_answer():
    worker = StandingWorker(end=10, position=4)
    await worker.monitor.look()
    worker.clock.now += STALLED_S + 1
    assert worker.monitor.stalled_for > STALLED_S
    assert "not answered" in (worker.monitor.problem() or "")


@pytest.mark.parametrize(("ready", "partitions"), [(False, frozenset({0})), (True, NO_PARTITIONS)])
async def test_a_worker_that_waits_for_partitions_asks_whether_kafka_answers(ready, partitions):
    worker = StandingWorker(ready=ready, partitions=partitions)
    worker.kafka_is_there = False
    assert "not answered" in await worker.problem_after(STALLED_S + 1)
    worker.kafka_is_there = True
    assert await worker.problem_after(0) == ""


async def test_a_worker_that_does_not_become_ready_is_unhealthy():
    worker = StandingWorker(ready=False)
    assert await worker.problem_after(0) == ""
    assert "not been ready" in await worker.problem_after(UNREADY_S + 1)


@pytest.mark.parametrize(("generation", "read"), [(2, 0), (1, 500)])
async def test_a_recovery_that_reads_rows_or_starts_again_is_healthy(generation, read):
    worker = StandingWorker(ready=False)
    assert await worker.problem_after(UNREADY_S - 1) == ""
    worker.consumer_generation_id, worker.table.read = generation, read
    assert await worker.problem_after(UNREADY_S - 1) == ""


async def test_a_recovery_is_not_unhealthy_while_kafka_does_not_answer():
    worker = StandingWorker(ready=False)
    worker.kafka_is_there = False
    await worker.monitor.look()
    for _ in range(10):
        assert "ready" not in await worker.problem_after(UNREADY_S / 9)


async def test_a_recovery_that_stands_still_for_too_long_ends_the_process():
    worker = StandingWorker(ready=False)
    await worker.monitor.look()
    await worker.problem_after(HOPELESS_S + 1)
    assert "recovery stood still" in worker.watchdog.failed.result()
