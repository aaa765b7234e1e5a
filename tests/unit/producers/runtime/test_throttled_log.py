"""What goes wrong again and again is told once a minute, with how often."""

from __future__ import annotations

import logging

from switchgear.runtime.throttled_log import AGAIN_S, MOST_SUBJECTS, BoundedLog
from tests.support.clock import Clock

log = logging.getLogger("test.bounded")


class Unreadable(Exception):  # noqa: N818 - a user's exception
    def __str__(self):
        raise RuntimeError


def test_a_subject_is_told_once_a_minute_with_how_often_it_was_kept_back(caplog):
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


def test_an_error_that_can_not_be_read_is_told_by_its_type(caplog):
    BoundedLog(log).warning("usage of t", Unreadable())
    assert caplog.messages == ["usage of t: Unreadable"]


def test_it_remembers_a_bounded_number_of_subjects(caplog):
    caplog.set_level(logging.ERROR, "test.bounded")
    bounded = BoundedLog(log)
    for number in range(3 * MOST_SUBJECTS):
        bounded.warning(str(number))
    assert len(bounded._subjects) <= MOST_SUBJECTS
