from __future__ import annotations

import logging

from switchgear.runtime.throttled_log import AGAIN_S, MOST_SUBJECTS, BoundedLog, Throttle
from tests.support.clock import Clock

log = logging.getLogger("test.bounded")


class Unreadable(Exception):  # noqa: N818 - a user's exception
    def __str__(self):
        raise RuntimeError


def test_a_subject_is_logged_once_a_minute_with_the_number_left_out(caplog):
    clock = Clock(0.0)
    bounded = BoundedLog(log, clock=clock)
    for _ in range(5):
        bounded.warning("usage of t", ValueError("x"))
    bounded.warning("usage of u")
    clock.now = AGAIN_S
    bounded.warning("usage of t", ValueError("y"))
    assert [record.getMessage() for record in caplog.records] == [
        "usage of t: ValueError: x",
        "usage of u",
        "usage of t: ValueError: y (4 more since the last report)",
    ]


def test_an_error_whose_text_fails_is_logged_by_its_type(caplog):
    BoundedLog(log).warning("usage of t", Unreadable())
    assert caplog.messages == ["usage of t: Unreadable"]


def test_a_throttle_remembers_a_bounded_number_of_keys():
    throttle = Throttle(AGAIN_S)
    for number in range(3 * MOST_SUBJECTS):
        throttle.admit(number)
    assert len(throttle) <= MOST_SUBJECTS


def test_a_throttle_returns_the_amount_that_was_left_out():
    clock = Clock(0.0)
    throttle = Throttle(5.0, clock=clock)
    assert throttle.admit("letters", 3) == 0
    assert throttle.admit("letters", 4) is None
    assert throttle.admit("letters", 2) is None
    clock.now = 5.0
    assert throttle.admit("letters", 1) == 6
