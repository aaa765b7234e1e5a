"""Long work gives way after each slice, and of all long work one goes on at a time."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from switchgear_http import turns
from switchgear_http.turns import Turn
from tests.support.beats import beats_during


@pytest.fixture
def no_slice(monkeypatch):
    """Every pause is after the end of a slice."""
    monkeypatch.setattr(turns, "SLICE_S", -1.0)


async def test_work_that_fits_in_a_slice_never_waits(monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", 3600.0)  # on a busy machine, 5 ms may pass between two lines
    went_on = []
    asyncio.get_running_loop().call_soon(went_on.append, True)
    turn = Turn()
    for _ in range(10):
        await turn.pause()
    assert went_on == []


@pytest.mark.usefixtures("no_slice")
async def test_others_go_on_at_each_pause_after_a_slice():
    async def pauses():
        turn = Turn()
        for _ in range(100):
            await turn.pause()

    assert await beats_during(pauses()) >= 99


@pytest.mark.usefixtures("no_slice")
async def test_of_many_long_requests_one_works_in_each_round_of_the_loop():
    rounds, worked = [0], []

    async def count_rounds():
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    async def long_request():
        turn = Turn()
        await turn.pause()
        for _ in range(5):
            worked.append(rounds[0])
            await turn.pause()

    counting = asyncio.create_task(count_rounds())
    await asyncio.gather(*(long_request() for _ in range(10)))
    counting.cancel()
    assert len(worked) == 50
    assert max(worked.count(each) for each in worked) == 1


async def test_steps_in_a_thread_run_one_after_the_other():
    running, most = [0], [0]
    lock = threading.Lock()

    def step():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.002)
        with lock:
            running[0] -= 1
        return threading.current_thread()

    threads = await asyncio.gather(*(Turn().in_thread(step) for _ in range(5)))
    assert most == [1]
    assert threading.current_thread() not in threads


async def test_a_step_in_a_thread_raises_what_it_raises():
    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        await Turn().in_thread(fails)
