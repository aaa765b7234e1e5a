from random import Random

import pytest

from switchgear.breaker import Breaker, ResultKind
from switchgear.breaker.cusum import solve
from switchgear_schemas.policy import FLEET_DEFAULT, Cusum
from tests.simulator.healthy import (
    CALLS_PER_S,
    STATED,
    _by,
    check,
    feed_successes,
    steady,
)
from tests.support.cusum import run_length

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("failure_rate", [0.01, 0.05, 0.3, 0.6])
def test_successes_fed_at_once_are_the_same_to_the_byte_as_one_by_one(failure_rate):
    rng = Random(7)
    fast, slow = (Breaker("t", FLEET_DEFAULT, 0.0) for _ in range(2))
    done = 0
    while done < 40_000:
        run = rng.randrange(1, int(2 / failure_rate) + 1) - 1 if rng.random() > 0.02 else rng.randrange(9_000)
        feed_successes(fast, done, run)
        for index in range(done, done + run):
            slow.record_event(index / CALLS_PER_S, _by(index, ResultKind.SUCCESS), generation=None, lease_id=None)
        done += run
        for breaker in (fast, slow):
            breaker.record_event(done / CALLS_PER_S, _by(done, ResultKind.FAILURE), generation=None, lease_id=None)
        done += 1
        assert fast.snapshot() == slow.snapshot()
        if slow.state != "closed":
            for breaker in (fast, slow):
                breaker.command("reset", done / CALLS_PER_S, actor="test")


def test_a_healthy_tool_under_a_thousand_calls_a_second_stays_closed():
    found = [steady(rate, 1_000_000, Random(1)) for rate in (0.01, 0.05)]
    assert [one.opens for one in found] == [0, 0]
    assert check(found, "").startswith("healthy-stays-closed: held (1%: 0 opens in 1,000,000 calls")


@pytest.mark.deep
def test_the_detector_opens_as_often_as_stated():
    found = steady(0.15, 800_000, Random(2))
    assert found.least <= found.opens <= found.most
    assert found.opens > 15


def test_the_stated_rates_are_the_exact_ones_of_the_detector():
    detector = solve(Cusum())
    assert {rate: run_length(detector, rate) for rate in STATED} == pytest.approx(STATED, rel=0.02)
