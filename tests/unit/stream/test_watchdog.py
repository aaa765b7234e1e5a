from __future__ import annotations

import asyncio

import pytest

from switchgear_stream.watchdog import Watchdog
from tests.support.clock import Clock


async def test_a_worker_that_runs_has_not_failed():
    clock = Clock()
    watchdog = Watchdog(6, clock=clock)
    clock.now += 5.9
    watchdog.check_awake()
    assert not watchdog.failed.done()


async def test_a_pause_longer_than_the_session_is_a_failure():
    clock = Clock()
    watchdog = Watchdog(6, clock=clock)
    clock.now += 6.1
    watchdog.check_awake()
    assert "another owner" in watchdog.failed.result()


async def test_a_busy_event_loop_is_not_a_pause():
    clock, processor_time = Clock(), Clock(0.0)
    watchdog = Watchdog(6, clock=clock, processor_time=processor_time)
    clock.now += 7
    processor_time.now += 5
    watchdog.check_awake()
    assert not watchdog.failed.done()


async def test_only_the_first_failure_is_reported():
    watchdog = Watchdog(6)
    watchdog.report("first")
    watchdog.report("second")
    assert watchdog.failed.result() == "first"


async def test_die_reports_and_never_returns():
    watchdog = Watchdog(6)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watchdog.die("gone", ValueError("x")), 0.05)
    assert watchdog.failed.result() == "gone"
