"""Tests of durations and instants as text."""

from switchgear_schemas.times import duration_s, rfc3339
from tests.support.table import table


@table(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("15 min", 900), ("2h", 7200), ("1.5d", 129_600), ("1h30m", 5400), ("250ms", 0.25)],
)
def test_a_duration_is_numbers_with_their_units(text, seconds):
    assert duration_s(text) == seconds


@table("text", ["", "10", "10x", "m", "-5m", "10  m", "1,5h", " 10m", "1e3s", "٣s", "1.s", "9" * 10 + "s"])
def test_anything_else_is_not_a_duration(text):
    assert duration_s(text) is None


def test_an_instant_is_utc_with_milliseconds():
    assert rfc3339(1_795_689_125.12) == "2026-11-26T10:32:05.120Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
