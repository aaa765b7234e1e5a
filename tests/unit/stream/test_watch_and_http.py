from __future__ import annotations

import asyncio
import socket
import time
from types import SimpleNamespace

import aiohttp
import pytest
from faust.types import TP

from switchgear_schemas import SettingsError
from switchgear_schemas.settings import load_settings
from switchgear_stream.health_monitor import HOPELESS_S, STALLED_S, UNREADY_S, HealthMonitor, lag
from switchgear_stream.http import build_http, serving
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.watchdog import Watchdog

P0, P1 = TP("t.executions", 0), TP("t.executions", 1)


class Standing:
    """An owner that does not move, and a broker that knows more records."""

    def __init__(self, *, end: int, position: int) -> None:
        self.ready = True
        self.partitions = frozenset({0})
        self.progressed_at = time.monotonic()
        self.continuity = SimpleNamespace(position=lambda _tp: position)
        self.consumer = self
        self.consumer_generation_id = 1
        self._end = end

    def states(self) -> dict[str, int]:
        return {"open": 2, "closed": 5}

    async def highwaters(self, *tps: TP) -> dict[TP, int]:
        return dict.fromkeys(tps, self._end)


async def _no_answer() -> bool:
    return False


def _watch(standing: Standing, metrics: WorkerMetrics) -> tuple[HealthMonitor, Watchdog]:
    watchdog = Watchdog(6)
    watch = HealthMonitor(
        settings=load_settings(topic_prefix="t."),
        app=standing,  # type: ignore[arg-type]
        table=SimpleNamespace(rows={}, stale_rows=0, read=0),  # type: ignore[arg-type]
        owner=standing,  # type: ignore[arg-type]
        watchdog=watchdog,
        metrics=metrics,
        kafka_answers=_no_answer,
    )
    return watch, watchdog


def test_lag_is_what_lies_between_position_and_end():
    assert lag({P0: 10, P1: 5}, {P0: 7, P1: 6}) == {P0: 3, P1: 0}
    assert lag({P0: 10}, {}) == {}


async def test_lag_that_is_worked_on_is_healthy_and_lag_that_stands_is_not():
    standing = Standing(end=10, position=4)
    watch, _ = _watch(standing, WorkerMetrics())
    await watch._look()
    assert watch.problem() is None
    watch._lagging_since = standing.progressed_at = time.monotonic() - STALLED_S - 1
    assert "stood still" in (watch.problem() or "")
    standing.progressed_at = time.monotonic()
    assert watch.problem() is None


async def test_no_lag_is_healthy_however_quiet():
    standing = Standing(end=4, position=4)
    watch, _ = _watch(standing, WorkerMetrics())
    standing.progressed_at -= 10_000
    await watch._look()
    assert watch.stalled_for == 0
    assert watch.problem() is None


async def test_a_stream_that_stands_for_good_ends_the_process(monkeypatch):
    standing = Standing(end=10, position=4)
    watch, watchdog = _watch(standing, WorkerMetrics())
    monkeypatch.setattr("switchgear_stream.health_monitor.EVERY_S", 0.001)
    watch._lagging_since = standing.progressed_at = time.monotonic() - HOPELESS_S - 1
    running = asyncio.create_task(watch.run())
    assert "stood still" in await asyncio.wait_for(watchdog.failed, 5)
    running.cancel()


async def test_a_broker_that_says_nothing_makes_the_worker_unhealthy():
    watch, _ = _watch(Standing(end=4, position=4), WorkerMetrics())
    watch._answered_at -= STALLED_S + 1
    assert "not answered" in (watch.problem() or "")


@pytest.mark.parametrize(("ready", "partitions"), [(False, {0}), (True, set())])
async def test_a_worker_that_waits_for_partitions_asks_whether_kafka_is_there(ready, partitions):
    standing = Standing(end=0, position=0)
    standing.ready, standing.partitions = ready, frozenset(partitions)
    watch, _ = _watch(standing, WorkerMetrics())
    watch._answered_at -= STALLED_S + 1
    await watch._look()
    assert "not answered" in (watch.problem() or "")

    async def answer() -> bool:
        return True

    watch._kafka_answers = answer
    await watch._look()
    assert watch.problem() is None


async def test_a_stream_that_stands_because_kafka_is_away_is_told_by_its_cause():
    standing = Standing(end=10, position=4)
    watch, _ = _watch(standing, WorkerMetrics())
    watch._lagging_since = standing.progressed_at = time.monotonic() - STALLED_S - 1
    watch._answered_at -= STALLED_S + 1
    assert "not answered" in (watch.problem() or "")


async def _answer() -> bool:
    return True


async def test_a_worker_that_never_gets_ready_is_unhealthy():
    standing = Standing(end=0, position=0)
    standing.ready = False
    watch, _ = _watch(standing, WorkerMetrics())
    watch._kafka_answers = _answer
    await watch._look()
    assert watch.problem() is None
    watch._moved_at -= UNREADY_S + 1
    await watch._look()
    assert "not been ready" in (watch.problem() or "")


@pytest.mark.parametrize(("generation", "read"), [(2, 0), (1, 500)])
async def test_a_recovery_that_moves_or_begins_anew_is_healthy(generation, read):
    standing = Standing(end=0, position=0)
    standing.ready = False
    watch, _ = _watch(standing, WorkerMetrics())
    watch._kafka_answers = _answer
    await watch._look()
    watch._moved_at -= UNREADY_S + 1
    standing.consumer_generation_id, watch._table.read = generation, read
    await watch._look()
    assert watch.problem() is None


async def test_while_kafka_is_silent_a_recovery_is_not_blamed():
    standing = Standing(end=0, position=0)
    standing.ready = False
    watch, _ = _watch(standing, WorkerMetrics())
    await watch._look()
    watch._moved_at -= UNREADY_S + 1
    watch._answered_at -= 10
    await watch._look()
    assert watch.problem() is None


async def test_a_recovery_that_stands_for_good_ends_the_process(monkeypatch):
    standing = Standing(end=0, position=0)
    standing.ready = False
    watch, watchdog = _watch(standing, WorkerMetrics())
    watch._kafka_answers = _answer
    monkeypatch.setattr("switchgear_stream.health_monitor.EVERY_S", 0.001)
    await watch._look()
    watch._moved_at -= HOPELESS_S + 1
    running = asyncio.create_task(watch.run())
    assert "recovery stood still" in await asyncio.wait_for(watchdog.failed, 5)
    running.cancel()


async def test_health_readiness_and_metrics_are_served():
    standing, metrics = Standing(end=10, position=4), WorkerMetrics()
    watch, watchdog = _watch(standing, metrics)
    await watch._look()
    async with (
        serving(build_http(standing, watch, metrics), "127.0.0.1:0") as port,  # type: ignore[arg-type]
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        async with client.get("/healthz") as answer:
            assert answer.status == 200
        async with client.get("/readyz") as answer:
            assert await answer.json() == {"status": "ready", "partitions": [0]}
        async with client.get("/metrics") as answer:
            text = await answer.text()
        assert 'switchgear_worker_lag_records{topic="t.executions"} 6.0' in text
        assert 'switchgear_worker_circuits{state="open"} 2.0' in text
        standing.ready = False
        watchdog.report("broken")
        async with client.get("/readyz") as answer:
            assert answer.status == 503
        async with client.get("/healthz") as answer:
            assert (answer.status, (await answer.json())["problem"]) == (503, "broken")


async def test_an_address_in_use_is_told_with_the_way_out():
    standing, metrics = Standing(end=0, position=0), WorkerMetrics()
    watch, _ = _watch(standing, metrics)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SettingsError, match="SWITCHGEAR_WORKER_HTTP"):
            async with serving(build_http(standing, watch, metrics), address):  # type: ignore[arg-type]
                pass
