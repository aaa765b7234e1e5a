"""Fifty callers ask at the end of the wait: exactly the permitted number of probes gets in."""

from __future__ import annotations

import asyncio
import threading

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S
from tests.support.local_client import local_client

pytestmark = pytest.mark.slow

CALLERS = 50
ROUNDS = 100
WAIT_S = 60.0


class DownError(Exception):
    """The tool is broken."""


def client(clock: Clock, permits: int) -> Switchgear:
    return local_client(
        clock,
        local_policies=BreakerPolicy(
            consecutive_failures=1,
            wait_duration_in_open_state_s=WAIT_S,
            permitted_number_of_calls_in_half_open_state=permits,
            success_threshold_to_close=permits,
        ),
    )


def next_rush(gear: Switchgear, clock: Clock) -> None:
    assert gear.status().local == {}
    gear.try_acquire("tool").failure(DownError())
    clock.now += WAIT_S


class Rush:
    """One round: who got in, who was refused; those that are in come out when all have had their answer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answered = threading.Event()
        self.entered = self.refused = 0

    def note(self, *, entered: bool) -> None:
        with self.lock:
            if entered:
                self.entered += 1
            else:
                self.refused += 1
            if self.entered + self.refused == CALLERS:
                self.answered.set()


@pytest.mark.parametrize("permits", [1, 3])
def test_half_open_lets_the_permitted_number_of_fifty_threads_in(permits):
    clock = Clock()
    gear = client(clock, permits)
    rush = Rush()

    @gear.guard("tool")
    def tool():
        rush.note(entered=True)
        assert rush.answered.wait(ANSWER_S)

    gate = threading.Barrier(CALLERS + 1)

    def caller():
        for _ in range(ROUNDS):
            gate.wait(ANSWER_S)
            try:
                tool()
            except CircuitOpenError:
                rush.note(entered=False)
            gate.wait(ANSWER_S)

    threads = [threading.Thread(target=caller, daemon=True) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    seen = []
    for _ in range(ROUNDS):
        rush = Rush()
        next_rush(gear, clock)
        gate.wait(ANSWER_S)  # go
        gate.wait(ANSWER_S)  # all are back
        seen.append((rush.entered, rush.refused))
    for thread in threads:
        thread.join(ANSWER_S)
    assert seen == [(permits, CALLERS - permits)] * ROUNDS


@pytest.mark.parametrize("permits", [1, 3])
async def test_half_open_lets_the_permitted_number_of_fifty_tasks_in(permits):
    clock = Clock()
    gear = client(clock, permits)
    entered = 0
    out = asyncio.Event()

    @gear.guard("tool")
    async def tool():
        nonlocal entered
        entered += 1
        await out.wait()

    seen = []
    for _ in range(ROUNDS):
        entered = 0
        out.clear()
        next_rush(gear, clock)
        tasks = [asyncio.ensure_future(tool()) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        out.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        seen.append((entered, sum(isinstance(answer, CircuitOpenError) for answer in answers)))
    assert seen == [(permits, CALLERS - permits)] * ROUNDS
