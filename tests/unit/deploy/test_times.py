from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_cli.times import parse_duration, parse_instant
from switchgear_schemas.errors import WrongUsageError
from tests.support.table import table


@table(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("15min", 900),
        ("10 m", 600),
        ("2h", 7200),
        ("1d", 86_400),
        ("1h30m", 5400),
        ("0.5s", 0.5),
        ("365d", 31_536_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@table("text", ["", "10", "10x", "m", "-5m", "10  m", "1,5h", "ten minutes", "10m?", "1e3s"])
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(WrongUsageError, match=r"is not a duration\. Write a number with s, m, h or d: 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "366d", "9999999h"])
def test_a_duration_of_zero_and_one_of_more_than_a_year_are_refused(text):
    with pytest.raises(WrongUsageError, match="Leave --for out for no end"):
        parse_duration(text)


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@table(
    ("text", "before"),
    [("90s", 90), ("15m", 900), ("15min", 900), ("2h", 7200), ("7d", 604_800), ("1.5h", 5400), ("1h30m", 5400)],
)
def test_an_instant_may_be_a_duration_before_now(text, before):
    assert parse_instant("--since", text, NOON) == NOON - timedelta(seconds=before)


def test_an_instant_is_utc_unless_it_says_otherwise():
    for text in ("2026-11-21T12:00:00", "2026-11-21T13:00:00+01:00", "2026-11-21 12:00", "2026-11-21T12:00:00Z"):
        assert parse_instant("--since", text, NOON) == NOON
    assert parse_instant("--since", None, NOON) is None


@table("text", ["yesterday", "", "7", "99999999d", "999999999d"])
def test_what_is_not_an_instant_is_refused_with_the_option_and_examples(text):
    with pytest.raises(
        WrongUsageError, match=r"--until .* is neither a duration nor a date and time\. Write e\.g\. --until 2h"
    ):
        parse_instant("--until", text, NOON)
