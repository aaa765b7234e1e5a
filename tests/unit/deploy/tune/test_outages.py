"""When a tool was down, as the history itself shows it."""

from __future__ import annotations

import pytest

from switchgear_cli.tune.outages import Calendar, estimate_outages, usual_of
from tests.support.table import table
from tests.support.tuning import OUTAGES, START, made, outage, recorded

pytestmark = pytest.mark.slow


def estimated(calls):
    return estimate_outages(calls, [call.event.status == "error" for call in calls], usual_of(calls))


def seconds(found):
    return [(each.start - START, each.end - START) for each in found]


@pytest.mark.parametrize("failing", [1.0, 0.9, 0.5])
def test_each_time_in_which_a_tool_failed_is_found_to_within_seconds(failing):
    found = seconds(estimated(recorded(failing=failing)))
    assert len(found) == len(OUTAGES)
    for (start, end), (true_start, true_end) in zip(found, OUTAGES, strict=True):
        assert abs(start - true_start) < 10
        assert abs(end - true_end) < 10


def test_a_time_in_which_a_tool_was_slow_is_found_though_no_call_failed():
    found = seconds(estimated(recorded(slow_ms=2000, failing=0.6)))
    assert len(found) == len(OUTAGES)
    assert all(abs(each[0] - true[0]) < 15 for each, true in zip(found, OUTAGES, strict=True))


@table("seed", range(5))
@table("usually", [0.0, 0.05, 0.3])
def test_a_tool_that_fails_at_the_same_rate_all_the_time_has_no_outage(usually, seed):
    assert estimated(recorded((), usually=usually, seed=seed)) == []


@pytest.mark.slow
def test_a_burst_that_is_over_within_seconds_is_no_outage():
    assert estimated(recorded([(1000, 1002)], per_second=20, failing=1.0, seconds=2000)) == []


def test_a_stray_failure_after_an_outage_does_not_prolong_it():
    calls = [made(second, "error" if 500 <= second < 560 or second == 568 else "success") for second in range(1200)]
    ((_, end),) = seconds(estimated(calls))
    assert end == 559


def test_few_calls_show_no_outage():
    assert estimated([made(second, "error") for second in range(30)]) == []
    assert estimated([made(0)]) == []


def test_what_is_usual_is_not_changed_by_an_outage():
    usual = usual_of(recorded(slow_ms=5000, failing=1.0))
    assert 95 < usual.median_ms < 105
    assert usual.slow_ms < 121


def test_a_tool_with_few_calls_has_no_slow_ones():
    assert usual_of([made(second) for second in range(100)]).slow_ms == float("inf")
    assert usual_of([]).median_ms == 0


def test_a_call_is_in_an_outage_if_any_part_of_it_was():
    calendar = Calendar([outage(10, 20), outage(30, 40), outage(0, 99, "other")])
    found = [calendar.find(made(second, ms=2000)) for second in (9, 11, 21.5, 23, 35, 43)]
    numbers = [None if place is None else calendar.outages[place].start - START for place in found]
    assert numbers == [None, 10, 10, None, 30, None]
    assert calendar.find(made(15, tool="unknown")) is None
