"""A replay says what a kept rate limit would have done with past calls."""

from __future__ import annotations

from typing import Any

import pytest

from switchgear_api.replay import Fold
from switchgear_schemas import FLEET_DEFAULT
from switchgear_schemas.wire import Execution

ENFORCE: dict[str, Any] = {"pace": "enforce", "pace_wait_s": 2.0}


def fold(calls: list[tuple[float, bool]], **values: Any) -> Fold:
    """Fold calls of one tool: when each ended, and whether the tool took it."""
    policy = FLEET_DEFAULT.model_copy(update=ENFORCE | values)
    found = Fold(lambda _tool: policy)
    for at, taken in calls:
        call = Execution("search", "success") if taken else Execution("search", "error", error_class="rate_limited")
        list(found.add(call, 1_800_000_000.0 + at))
    return found


def test_calls_over_a_stated_limit_would_have_waited_or_been_refused():
    summary = fold([(number / 10, True) for number in range(600)], pace_limit="5/s").summary
    assert summary.paced.calls == 600
    assert summary.paced.refused == pytest.approx(290, abs=10)
    assert summary.paced.waited >= 280
    assert summary.refused.calls == summary.paced.refused
    assert summary.paced.seconds_waited / summary.paced.waited <= 2


def test_a_learned_limit_spares_the_calls_that_the_tool_refused():
    calls = [(number / 20, number % 4 == 0) for number in range(2_400)]  # it takes five of twenty a second
    summary = fold(calls).summary
    assert summary.paced.limited == 1_800
    assert summary.paced.refused_limited == pytest.approx(0.75 * 1_800, rel=0.1)
    assert summary.opens == 0


def test_without_a_limit_nothing_waits():
    summary = fold([(number / 10, True) for number in range(600)]).summary
    assert (summary.paced.refused, summary.paced.waited) == (0, 0)


def test_learn_refuses_nothing():
    summary = fold([(number / 10, True) for number in range(600)], pace="learn", pace_limit="1/s").summary
    assert summary.paced.calls == 0
    assert summary.refused.calls == 0
