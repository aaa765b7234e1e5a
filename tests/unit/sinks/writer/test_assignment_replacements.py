"""Two sinks under one name: the one that is replaced again and again notices it."""

from __future__ import annotations

import pytest

from switchgear_sinks.writer.assignment import Replacements
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def replacements(clock: Clock) -> Replacements:
    return Replacements(clock)


def replaced(replacements: Replacements, clock: Clock, times: int, apart_s: float) -> list[bool]:
    found = []
    for _ in range(times):
        found.append(replacements.count())
        clock.now += apart_s
    return found


def test_the_fifth_replacement_within_30_seconds_is_too_many(replacements: Replacements, clock: Clock) -> None:
    assert replaced(replacements, clock, 5, 0.25) == [False] * 4 + [True]


def test_sessions_that_end_now_and_then_are_not_too_many(replacements: Replacements, clock: Clock) -> None:
    assert not any(replaced(replacements, clock, 50, 15))


def test_the_loss_of_all_partitions_at_once_is_one_replacement(replacements: Replacements, clock: Clock) -> None:
    assert not any(replaced(replacements, clock, 24, 0.001))
