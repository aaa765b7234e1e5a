"""The age of a batch follows what inserts cost."""

from __future__ import annotations

import pytest

from switchgear_sinks.writer.pace import SHARE, Pace
from tests.support.table import table


def test_the_first_row_after_a_quiet_time_waits_for_the_least_age() -> None:
    pace = Pace(0.5, 3.0)
    assert pace.due_at(10.0) == 10.5
    pace.book(0.1, 10.6)
    assert pace.due_at(20.0) == 20.5


def test_cheap_inserts_leave_the_age_as_it_is() -> None:
    pace = Pace(0.5, 3.0)
    pace.book(0.02, 10.0)
    assert pace.due_at(10.0) == 10.5


def test_after_a_dear_insert_a_batch_waits_until_it_is_a_small_share_of_a_core() -> None:
    pace = Pace(0.5, 3.0)
    pace.book(0.1, 10.0)
    assert pace.due_at(10.1) == pytest.approx(12.0)


@table("cost_s", [0.15, 1.0, 60.0])
def test_no_row_waits_longer_than_the_longest_age(cost_s: float) -> None:
    pace = Pace(0.5, 3.0)
    for _ in range(10):
        pace.book(cost_s, 10.0)
    assert pace.due_at(10.2) == pytest.approx(13.0)
    assert pace.due_at(7.5) == 10.5


def test_a_longest_age_below_the_least_is_the_least() -> None:
    pace = Pace(0.5, 0.0)
    pace.book(1.0, 10.0)
    assert pace.due_at(10.0) == 10.5


@table("cost_s", [0.001, 0.03, 0.08, 0.14, 0.3])
def test_in_the_long_run_inserts_take_their_share_or_batches_wait_longest(cost_s: float) -> None:
    pace, now, inserts = Pace(0.5, 3.0), 0.0, 0
    while now < 600.0:
        now = pace.due_at(now) + cost_s
        pace.book(cost_s, now)
        inserts += 1
    each_s = 600.0 / inserts
    assert each_s == pytest.approx(min(max(0.5, cost_s / SHARE), 3.0) + cost_s, rel=0.02)
