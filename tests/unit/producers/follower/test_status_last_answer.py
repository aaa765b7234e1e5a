"""How long ago the broker answered, by a monotonic clock."""

from __future__ import annotations

import time
from typing import Any

import pytest

from switchgear.follower.follower import CircuitFollower
from switchgear.follower.status import LastAnswer
from switchgear.testing import FakeClock

NOON_MS = 1_800_000_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def answer(clock: FakeClock) -> LastAnswer:
    return LastAnswer(clock.monotonic)


def test_age_is_none_until_every_partition_was_answered(answer: LastAnswer) -> None:
    assert answer.age_s() is None
    for stamps in ({}, {0: None}, {0: NOON_MS, 1: None}, {0: NOON_MS, 1: 0}):
        assert not answer.note(stamps)
    assert answer.age_s() is None


def test_age_is_that_of_the_partition_answered_longest_ago(answer: LastAnswer, clock: FakeClock) -> None:
    assert answer.note({0: NOON_MS, 1: NOON_MS})
    clock.advance(5)
    assert answer.note({0: NOON_MS + 5_000, 1: NOON_MS})
    assert answer.age_s() == 5
    clock.advance(1)
    answer.note({0: NOON_MS + 5_000, 1: NOON_MS + 6_000})
    assert answer.age_s() == 1


def test_a_stamp_that_goes_back_is_an_answer_like_any(answer: LastAnswer, clock: FakeClock) -> None:
    answer.note({0: NOON_MS})
    clock.advance(20)
    answer.note({0: NOON_MS - 3_600_000})
    assert answer.age_s() == 0
    clock.advance(20)
    answer.note({0: NOON_MS - 3_600_000})
    assert answer.age_s() == 20


def test_while_a_new_connection_has_no_answer_yet_the_old_one_ages(answer: LastAnswer, clock: FakeClock) -> None:
    answer.note({0: NOON_MS})
    clock.advance(7)
    answer.note({0: 0})
    assert answer.age_s() == 7
    answer.forget()
    assert answer.age_s() is None


class Consumer:
    """aiokafka's, of one idle partition: it stamps by the machine's clock when the broker answered last."""

    def __init__(self) -> None:
        self.stamp = int(time.time() * 1000)

    def assignment(self) -> set[str]:
        return {"circuits-0"}

    def last_poll_timestamp(self, _partition: str) -> int:
        return self.stamp

    def highwater(self, _partition: str) -> int:
        return 0

    async def position(self, _partition: str) -> int:
        return 0


async def test_a_follower_ages_also_when_the_machines_clock_is_set_back(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower: Any = CircuitFollower("127.0.0.1:1")
    follower._answered = LastAnswer(clock.monotonic)
    consumer = Consumer()
    await follower._observe(consumer)
    hour_ago = time.time() - 3_600
    monkeypatch.setattr(time, "time", lambda: hour_ago)
    clock.advance(1_800)
    await follower._observe(consumer)
    assert follower.age_s() == 1_800
    assert follower.status().stale
