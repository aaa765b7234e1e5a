from __future__ import annotations

from datetime import UTC, datetime, timedelta

from switchgear_api.console.series import period_of, series, step_of
from switchgear_api.console.timeline import bands, command_marks
from tests.support.table import table

NOW = datetime(2026, 11, 26, 2, 3, 4, tzinfo=UTC)


def row(minutes, state, **cause):
    return {
        "changed_at": NOW + timedelta(minutes=minutes), "state": state, "previous_state": "", "cause": cause or None, "counts": None,
        "circuit_id": "web", "tool_name": "web", "scope": "tool", "version": 1,
    }  # fmt: skip


def test_circuit_without_records_was_closed_all_the_time():
    assert [each["state"] for each in bands([], None, NOW, NOW + timedelta(hours=1))] == ["closed"]


def test_bands_begin_with_the_state_from_before_the_period():
    found = bands(
        [row(10, "half_open"), row(20, "closed")], row(-90, "open", rule="cusum"), NOW, NOW + timedelta(hours=1)
    )
    assert [(each["state"], each["at"][14:16], each["until"][14:16]) for each in found] == [
        ("open", "03", "13"), ("half_open", "13", "23"), ("closed", "23", "03"),
    ]  # fmt: skip


def test_change_at_the_very_start_makes_no_empty_band():
    found = bands([row(0, "open")], None, NOW, NOW + timedelta(hours=1))
    assert [each["state"] for each in found] == ["open"]


def test_one_command_to_many_circuits_is_one_mark():
    changes = [
        {"at": "2026-11-26T02:00:00.1Z", "actor": "ada", "why": "Forced open by ada.", "tool": name} for name in "abcd"
    ]
    (mark,) = command_marks([*changes, {"at": "x", "actor": None, "why": "", "tool": "e"}])
    assert mark["text"] == "a, b, c: Forced open by ada."


@table(("hours", "step"), [(0.5, 60), (1, 60), (6, 120), (24, 360), (25, 900), (168, 2700), (8784, 132300)])
def test_series_has_at_most_about_240_points_of_whole_minutes_or_quarters(hours, step):
    assert step_of(hours) == step
    _, _, count = period_of(NOW, hours)
    assert count <= 241


def test_last_step_of_a_series_has_the_present_moment():
    since, step, count = period_of(NOW, 6)
    end = since + timedelta(seconds=step * count)
    assert end - timedelta(seconds=step) <= NOW < end


def test_step_without_rows_has_no_calls_and_no_times():
    found = series(
        [{"place": 1, "calls": 4, "errors": 1, "times": [1.0, 2.0, float("nan")]}, {"place": 9, "calls": 7}], NOW, 60, 3
    )
    assert found["calls"] == [0, 4, 0]
    assert (found["p50_ms"], found["p99_ms"]) == ([None, 1.0, None], [None, None, None])
    assert found["refused"] == [0, 0, 0]
