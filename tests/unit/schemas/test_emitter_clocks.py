"""What the times of a process show about its clock, and the sentence about it."""

from __future__ import annotations

import pytest

from switchgear_schemas.emitter_clocks import WrongClock, clock_of_emitter, clock_of_event
from tests.support.table import table

NOW = 1_795_867_200.0
ZONE = "Send recorded_at with a time zone, such as 2026-11-28T12:00:00Z."
NTP = "Synchronise the clock of its machine, for instance by NTP."


def of_event(off: float, *, zoned: bool) -> WrongClock | None:
    return clock_of_event(NOW + off, NOW, zoned=zoned, late_after_s=300)


def of_emitter(
    least: float, most: float, *, events: int = 20, hours: int = 5, without_zone: int = 0
) -> WrongClock | None:
    return clock_of_emitter(
        events=events, hours=hours, without_zone=without_zone, least_s=least, most_s=most, late_after_s=300
    )


@table(
    ("off", "zoned", "text", "todo", "counted"),
    [
        (-18_000.4, False, "its times have no time zone and are 5 h behind UTC, so no circuit counts its calls", ZONE, False),
        (20_699, False, "its times have no time zone and are 5 h 45 min ahead of UTC, so its calls are stored with the broker's time", ZONE, True),
        (-120, False, "its times have no time zone and are 120 s behind UTC, so its calls are stored at a wrong time", ZONE, True),
        (3_600, True, "its times are 1 h ahead of UTC, as local times are, so its calls are stored with the broker's time", ZONE, True),
        (61, True, "its clock is 61 s ahead of the broker's, so its calls are stored with the broker's time", NTP, True),
        (400, True, "its clock is 7 min ahead of the broker's, so its calls are stored with the broker's time", NTP, True),
        (86_400 * 26_388, True, "its clock is 26,388 days ahead of the broker's, so its calls are stored with the broker's time", NTP, True),
    ],
)  # fmt: skip
def test_one_event_shows_a_wrong_clock_if_nothing_else_explains_its_time(
    off: float, zoned: bool, text: str, todo: str, counted: bool
) -> None:
    assert of_event(off, zoned=zoned) == (text, todo, counted)


@table(
    ("off", "zoned"),
    [(0, False), (60, False), (-60, False), (60, True), (-61, True), (-3_600, True), (-86_400 * 365, True)],
)
def test_a_naive_time_that_is_right_and_an_event_that_is_only_late_show_nothing(off: float, zoned: bool) -> None:
    assert of_event(off, zoned=zoned) is None


@table(
    ("least", "most", "given"),
    [
        (-4_000, -400, {}),  # an hour of calls, delivered after an outage
        (-3_610, -3_600, {"hours": 1}),  # ten seconds of calls, delivered in one go
        (-3_610, -3_600, {"events": 2}),
        (-90_000, -70, {"hours": 24, "events": 100_000}),
    ],
)
def test_a_spool_that_is_sent_an_hour_later_is_no_wrong_clock(least: float, most: float, given: dict[str, int]) -> None:
    assert of_emitter(least, most, **given) is None


@pytest.mark.parametrize("hours", [5, 5.5, 5.75, 8, -5, -3.5, 12, 14])
def test_hours_and_half_hours_off_are_called_local_times(hours: float) -> None:
    found = of_emitter(hours * 3600 - 30, hours * 3600 + 30)
    assert found is not None
    assert "as local times are" in found.text
    assert (found.todo, found.counted) == (ZONE, hours > 0)


def test_a_clock_that_stays_behind_by_the_same_is_wrong() -> None:
    found = of_emitter(-720, -700, hours=2, events=3)
    assert found == ("its clock is 12 min behind the broker's, so no circuit counts its calls", NTP, False)
    near = of_emitter(-200, -190)
    assert near == ("its clock is 3 min behind the broker's, so its calls are stored at a wrong time", NTP, True)


def test_times_that_are_ahead_are_wrong_at_once_however_much_they_differ() -> None:
    found = of_emitter(-5_000, 4_000, events=1, hours=1)
    assert found is not None
    assert (
        found.text
        == "its clock is up to 1 h 7 min ahead of the broker's, so its calls are stored with the broker's time"
    )


def test_times_without_a_zone_that_differ_have_no_size() -> None:
    found = of_emitter(-18_000, -14_400, without_zone=4)
    assert found == ("its times have no time zone, so no circuit counts its calls", ZONE, False)
    mixed = of_emitter(-18_000, 90, without_zone=4)
    assert mixed is not None
    assert mixed.text == "its times have no time zone, so circuits count only some of its calls"
