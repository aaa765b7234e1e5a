from __future__ import annotations

import asyncio

import pytest

from switchgear_stream.watchdog import Watchdog


async def test_a_worker_that_runs_has_not_failed():
    watchdog = Watchdog(6)
    ticking = asyncio.create_task(watchdog.run())
    await asyncio.sleep(0.01)
    watchdog.check_awake()
    assert not watchdog.failed.done()
    ticking.cancel()


async def test_a_pause_longer_than_the_session_is_a_failure():
    watchdog = Watchdog(6)
    watchdog._ticked -= 6.1
    watchdog.check_awake()
    assert "another owner" in watchdog.failed.result()


async def test_a_loop_that_was_busy_all_the_time_was_not_paused(monkeypatch):
    watchdog = Watchdog(6)
    watchdog._ticked -= 7
    watchdog._worked -= 5
    watchdog.check_awake()
    assert not watchdog.failed.done()


async def test_the_first_failure_is_the_one_that_is_told():
    watchdog = Watchdog(6)
    watchdog.report("first")
    watchdog.report("second")
    assert watchdog.failed.result() == "first"


async def test_who_dies_never_returns():
    watchdog = Watchdog(6)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watchdog.die("gone", ValueError("x")), 0.05)
    assert watchdog.failed.result() == "gone"
