"""Tests of the waits between attempts."""

import pytest

from switchgear.runtime.backoff import Backoff, backoff_s


def test_each_wait_is_twice_as_long_up_to_the_longest():
    assert [backoff_s(failures, 0.5, 15.0) for failures in range(1, 8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]


def test_after_very_many_failures_the_wait_is_the_longest():
    assert backoff_s(10**9, 0.005, 30.0) == 30.0


@pytest.mark.parametrize("failures", [1, 3, 100])
def test_a_spread_wait_is_between_its_bounds(failures):
    without = backoff_s(failures, 1.0, 10.0)
    found = {backoff_s(failures, 1.0, 10.0, spread=(0.5, 1.5)) for _ in range(100)}
    assert without * 0.5 <= min(found) < max(found) <= without * 1.5


def test_waits_grow_until_an_attempt_succeeds():
    waits = Backoff(0.1, 5.0)
    assert [waits.next_s(), waits.next_s()] == [0.1, 0.2]
    assert waits.failures == 2
    waits.reset()
    assert waits.next_s() == 0.1


def test_the_waits_of_a_backoff_are_spread_too():
    found = {Backoff(1.0, 5.0, spread=(0.5, 1.0)).next_s() for _ in range(100)}
    assert 0.5 <= min(found) < max(found) <= 1.0
