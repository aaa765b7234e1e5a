from __future__ import annotations

import asyncio

import pytest

from switchgear_stream.lifeline import Lifeline


async def test_a_worker_that_runs_has_not_failed():
    lifeline = Lifeline(6)
    ticking = asyncio.create_task(lifeline.run())
    await asyncio.sleep(0.01)
    lifeline.check_awake()
    assert not lifeline.failed.done()
    ticking.cancel()


async def test_a_pause_longer_than_the_session_is_a_failure():
    lifeline = Lifeline(6)
    lifeline._ticked -= 6.1
    lifeline.check_awake()
    assert "another owner" in lifeline.failed.result()


async def test_a_loop_that_was_busy_all_the_time_was_not_paused(monkeypatch):
    lifeline = Lifeline(6)
    lifeline._ticked -= 7
    lifeline._worked -= 5
    lifeline.check_awake()
    assert not lifeline.failed.done()


async def test_the_first_failure_is_the_one_that_is_told():
    lifeline = Lifeline(6)
    lifeline.report("first")
    lifeline.report("second")
    assert lifeline.failed.result() == "first"


async def test_who_dies_never_returns():
    lifeline = Lifeline(6)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lifeline.die("gone", ValueError("x")), 0.05)
    assert lifeline.failed.result() == "gone"
