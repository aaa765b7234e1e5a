"""Quiet hours and the time of the digest, also across midnight and changes of the clock."""

from datetime import UTC, datetime, time
from itertools import pairwise
from zoneinfo import ZoneInfo

from switchgear_alerts.quiet import QuietHours, last_due, next_loud
from tests.support.table import table

ZURICH = ZoneInfo("Europe/Zurich")


def quiet(**keys):
    return QuietHours.model_validate(keys)


def local(text):
    return datetime.fromisoformat(text).replace(tzinfo=ZURICH).timestamp()


@table(
    ("at", "loud"),
    [
        ("2026-11-21 21:59", "2026-11-21 21:59"),
        ("2026-11-21 22:00", "2026-11-22 07:00"),
        ("2026-11-22 03:00", "2026-11-22 07:00"),
        ("2026-11-22 07:00", "2026-11-22 07:00"),
        ("2026-10-25 01:00", "2026-10-25 07:00"),  # the clock goes back in this night
        ("2026-03-28 23:00", "2026-03-29 07:00"),  # and forward in this one
    ],
)
def test_a_night_ends_in_the_morning(at, loud):
    assert next_loud((quiet(**{"from": "22:00", "to": "07:00"}),), local(at), ZURICH) == local(loud)


def test_windows_that_follow_each_other_are_one():
    weekend = quiet(days=["sat", "sun"])
    nights = quiet(**{"from": "20:00", "to": "08:00"})
    assert next_loud((weekend, nights), local("2026-11-20 21:00"), ZURICH) == local("2026-11-23 08:00")


def test_many_short_windows_end_where_an_hour_of_the_day_is_free():
    halves = [f"{minutes // 60:02}:{minutes % 60:02}" for minutes in range(0, 23 * 60 + 1, 30)]
    windows = tuple(quiet(**{"from": start, "to": end}) for start, end in pairwise(halves))
    assert next_loud(windows, local("2026-11-21 00:10"), ZURICH) == local("2026-11-21 23:00")


def test_a_route_that_is_always_quiet_has_no_loud_time():
    assert next_loud((quiet(),), 0.0, ZoneInfo("UTC")) is None


def test_a_night_belongs_to_the_day_on_which_it_begins():
    friday = quiet(days=["fri"], **{"from": "22:00", "to": "06:00"})
    assert next_loud((friday,), local("2026-11-21 05:00"), ZURICH) == local("2026-11-21 06:00")
    assert next_loud((friday,), local("2026-11-21 22:30"), ZURICH) == local("2026-11-21 22:30")


def test_the_digest_was_last_due_today_or_yesterday():
    nine = time(9, 0)
    assert last_due(nine, local("2026-11-21 09:00"), ZURICH) == local("2026-11-21 09:00")
    assert last_due(nine, local("2026-11-21 08:59"), ZURICH) == local("2026-11-20 09:00")
    assert datetime.fromtimestamp(last_due(nine, local("2026-11-21 12:00"), ZURICH), UTC).hour == 8


def test_the_digest_is_due_once_on_a_day_whose_clock_skips_its_time():
    half_past_two = time(2, 30)
    skipped = datetime(2027, 3, 28, 1, 30, tzinfo=UTC).timestamp()
    for minutes in range(-90, 0):
        assert last_due(half_past_two, skipped + 60 * minutes, ZURICH) == local("2027-03-27 02:30")
    assert last_due(half_past_two, skipped, ZURICH) == skipped
