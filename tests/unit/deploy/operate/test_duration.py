from __future__ import annotations

from datetime import timedelta

import pytest

from switchgear_cli.operate.duration import parse_duration
from switchgear_cli.usage import WrongUsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("1h30m", 5400), ("0.5s", 0.5), ("365d", 31_536_000)],
)
def test_a_duration_is_a_number_and_a_unit(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "10x", "m", "-5m", "10 m", "1,5h", "ten minutes", "10m?", "1e3s"])
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(WrongUsageError, match=r"is no duration\. Write a number with s, m, h or d: 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "366d", "9999999h"])
def test_nothing_and_more_than_a_year_are_refused(text):
    with pytest.raises(WrongUsageError, match="Leave --for out for no end"):
        parse_duration(text)
