"""What a policy costs on a history."""

from __future__ import annotations

import pytest

from switchgear_cli.tune.cost import Prices, cost_of, price_calls
from switchgear_cli.tune.outages import Calendar, Usual
from switchgear_schemas.policy import BreakerPolicy
from tests.support.tuning import made, outage

pytestmark = pytest.mark.slow

NEVER = BreakerPolicy()
THREE = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=20)
PRICES = Prices(token_usd=0.001, second_usd=0.1, refused_usd=2.0, delay_usd=0.5)
USUAL = {"search": Usual(median_ms=100, slow_ms=150)}


def priced(calls, *outages, prices=PRICES):
    return price_calls(calls, lambda _tool: NEVER, Calendar(outages), USUAL, prices)


def cost(calls, *outages, policy=THREE, prices=PRICES):
    return cost_of(priced(calls, *outages, prices=prices), lambda _tool: policy, prices)


def failures(first, last):
    return [made(second, "error", 1000, input_tokens=10) for second in range(first, last)]


def successes(first, last):
    return [made(second) for second in range(first, last)]


DOWN = [*successes(0, 10), *failures(10, 40), *successes(40, 60)]


def test_a_policy_that_never_opens_wastes_every_failed_call_of_an_outage():
    found = cost(DOWN, outage(9, 39), policy=NEVER)
    assert (found.wasted_calls, found.wasted_tokens, found.wasted_s) == (30, 300, 30)
    assert found.total_usd == pytest.approx(30 * (10 * 0.001 + 1 * 0.1))
    assert (found.opens, found.refused_good, found.delay_s) == (0, 0, 0)


def test_refused_failures_cost_nothing_and_refused_successes_and_late_seconds_do():
    found = cost(DOWN, outage(9, 39))
    # It opens after three failures at second 12. The probe that begins at 32 fails at 33, and the next may begin at 53.
    assert found.wasted_calls == 4
    assert (found.opens, found.false_opens) == (1, 0)
    assert found.refused_good == found.delay_s == 14
    assert found.refused_usd == 14 * 2.0
    assert found.delay_usd == 14 * 0.5
    assert found.total_usd == pytest.approx(4 * 0.11 + 14 * 2.5)


def test_an_open_outside_of_outages_is_false_and_its_refusals_are_not_a_delay_of_recovery():
    found = cost(DOWN)
    assert (found.opens, found.false_opens) == (1, 1)
    assert (found.wasted_usd, found.delay_s) == (0, 0)
    assert found.refused_good == 14


def test_a_slow_success_in_an_outage_wastes_what_it_took_above_the_median_and_costs_when_refused():
    slow, quick = priced([made(5, ms=1100, input_tokens=10), made(6)], outage(0, 10))
    assert (slow.bad, slow.good, slow.wasted_tokens) == (True, True, 0)
    assert slow.wasted_s == pytest.approx(1.0)
    assert slow.wasted_usd == pytest.approx(0.1)
    assert slow.refused_usd == 2.0
    assert (quick.bad, quick.wasted_usd) == (False, 0)


def test_money_that_a_call_recorded_takes_the_place_of_its_tokens():
    (call,) = priced([made(5, "error", 0, input_tokens=10, cost_usd=0.7)], outage(0, 10))
    assert call.wasted_usd == pytest.approx(0.7)


def test_by_default_a_refused_good_call_costs_what_a_usual_good_call_of_the_tool_costs():
    calls = [made(1, ms=1000, input_tokens=10), made(2, ms=3000, input_tokens=30), made(3, "error", 60_000)]
    prices = Prices(token_usd=0.001, second_usd=0.1)
    assert [call.refused_usd for call in priced(calls, prices=prices)] == pytest.approx([0.22, 0.22, 0])


def test_calls_that_say_nothing_about_the_tool_cost_nothing_either_way():
    (call,) = priced([made(5, "error", error_class="auth", input_tokens=10)], outage(0, 10))
    assert (call.bad, call.good, call.wasted_usd, call.refused_usd) == (False, False, 0, 0)
