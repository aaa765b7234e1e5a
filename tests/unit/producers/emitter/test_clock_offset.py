"""The calendar is worked out after the call, and is right about calls before the machine slept too."""

from __future__ import annotations

import asyncio

import pytest

from switchgear.emitter.clock_offset import NOTICED_S, ClockOffset


class Machine:
    """Its monotonic clock stands still while it sleeps."""

    def __init__(self) -> None:
        self.monotonic = 100.0
        self.wall = 1_800_000_000.0

    def run(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds

    def sleep(self, seconds: float) -> None:
        self.wall += seconds


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def moments(machine):
    return ClockOffset(lambda: machine.monotonic, lambda: machine.wall)


def when(moments, instant):
    return instant + moments.offset_at(instant)


def test_an_instant_is_dated_by_both_clocks(machine, moments):
    machine.run(5)
    assert when(moments, machine.monotonic) == machine.wall


def test_calls_before_and_after_a_sleep_keep_their_own_time(machine, moments):
    machine.run(10)
    before, before_at = machine.monotonic, machine.wall
    moments.look()
    machine.sleep(3_600)
    machine.run(1)
    moments.look()
    machine.run(1)
    assert when(moments, before) == before_at
    assert when(moments, machine.monotonic) == machine.wall
    machine.sleep(60)
    moments.look()
    assert when(moments, before) == before_at
    assert when(moments, machine.monotonic) == machine.wall


def test_a_clock_that_is_steered_is_followed(machine, moments):
    for _ in range(100):
        machine.run(1)
        machine.wall += NOTICED_S / 2
        moments.look()
    assert when(moments, machine.monotonic) == pytest.approx(machine.wall)
    assert not moments._earlier


def test_however_often_the_clock_is_set_little_is_remembered(machine, moments):
    for _ in range(1_000):
        machine.run(1)
        machine.sleep(10)
        moments.look()
    assert len(moments._earlier) <= 64
    assert when(moments, 0.0) < machine.wall


async def test_it_looks_by_itself(machine, moments):
    machine.sleep(3_600)
    watching = asyncio.ensure_future(moments.watch())
    await asyncio.sleep(0)
    watching.cancel()
    assert when(moments, machine.monotonic) == machine.wall
