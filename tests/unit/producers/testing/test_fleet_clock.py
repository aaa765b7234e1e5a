from datetime import UTC, datetime

import pytest

from switchgear import SwitchgearError
from switchgear.testing import FakeClock
from switchgear.testing.fleet import START
from tests.support.table import table


def test_clocks_advance_together():
    clock = FakeClock()
    assert (clock.monotonic(), clock.wall()) == (0.0, START)
    clock.advance(61.5)
    assert (clock.monotonic(), clock.wall()) == (61.5, START + 61.5)
    assert clock.now() == datetime.fromtimestamp(START + 61.5, UTC)


def test_rejects_negative_seconds():
    with pytest.raises(ValueError, match=r"seconds must be a number of seconds from 0 to .*, not -1"):
        FakeClock().advance(-1)


@table("wrong", [float("nan"), float("inf"), 1e12, 10**400, "x", None, True])
def test_rejects_an_impossible_time(wrong):
    clock = FakeClock()
    with pytest.raises(SwitchgearError, match="seconds"):
        clock.advance(wrong)
    assert clock.monotonic() == 0.0
    with pytest.raises(SwitchgearError, match="start"):
        FakeClock(wrong)


def test_clock_starts_at_the_given_time():
    assert FakeClock(start=1_000.0).now() == datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)
