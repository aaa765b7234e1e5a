"""Monotonic times become calendar times in the background, also for calls before the machine slept."""

from __future__ import annotations

import asyncio

import pytest

from switchgear.emitter.encode import NOTICED_S, ClockOffset


class Machine:
    """A machine whose monotonic clock stands still while it sleeps."""

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
def offset(machine):
    return ClockOffset(lambda: machine.monotonic, lambda: machine.wall)


def when(offset, instant):
    return instant + offset.offset_at(instant)


def test_adds_the_distance_of_the_clocks_to_a_monotonic_time(machine, offset):
    machine.run(5)
    assert when(offset, machine.monotonic) == machine.wall


def test_calls_before_and_after_a_sleep_keep_their_own_time(machine, offset):
    machine.run(10)
    before, before_at = machine.monotonic, machine.wall
    offset.look()
    machine.sleep(3_600)
    machine.run(1)
    offset.look()
    machine.run(1)
    assert when(offset, before) == before_at
    assert when(offset, machine.monotonic) == machine.wall


def test_follows_a_clock_that_is_being_adjusted(machine, offset):
    for _ in range(100):
        machine.run(1)
        machine.wall += NOTICED_S / 2
        offset.look()
    assert when(offset, machine.monotonic) == pytest.approx(machine.wall)
    assert offset.since == 0.0


async def test_the_clocks_are_compared_repeatedly(machine, offset):
    machine.sleep(3_600)
    watching = asyncio.ensure_future(offset.watch())
    await asyncio.sleep(0)
    watching.cancel()
    assert when(offset, machine.monotonic) == machine.wall
