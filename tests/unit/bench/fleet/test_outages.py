"""The table of outages: how a tool answers before, during and after each."""

from __future__ import annotations

import pytest

from tests.bench.fleet.outages import OUTAGES, REAL, SIMULATED, ToolError

BY_NAME = {outage.name: outage for outage in OUTAGES}
DURING = SIMULATED.healthy_s + 1.0


def answer(name, at=DURING, process=1, draw=0.5):
    return BY_NAME[name].answer(SIMULATED, process, at, draw)


def status(found):
    return found.error.status_code if isinstance(found.error, ToolError) else found.error


def test_there_are_the_eight_outages_of_the_benchmark():
    assert list(BY_NAME) == [
        "down", "30 % errors", "slow", "hung", "rate-limited", "expired token", "flapping", "one bad process",
    ]  # fmt: skip


@pytest.mark.parametrize("outage", OUTAGES, ids=list(BY_NAME))
@pytest.mark.parametrize("timing", [REAL, SIMULATED], ids=["real", "simulated"])
def test_a_tool_is_healthy_before_its_outage_and_cold_after_it(outage, timing):
    before = outage.answer(timing, 0, timing.healthy_s - 0.01, 0.0)
    after = outage.answer(timing, 0, timing.recovers_s, 0.0)
    assert (before.error, before.seconds) == (None, timing.fast_s)
    assert (after.error, after.seconds) == (None, timing.cold_s)
    assert before.good(timing)
    assert after.good(timing)


@pytest.mark.parametrize(("name", "code"), [("down", 503), ("rate-limited", 429), ("expired token", 401)])
def test_a_total_outage_fails_every_call(name, code):
    assert {status(answer(name, draw=draw)) for draw in (0.0, 0.5, 0.99)} == {code}


def test_three_of_ten_calls_fail_in_a_partial_outage():
    found = [answer("30 % errors", draw=draw / 100) for draw in range(100)]
    assert sum(not each.good(SIMULATED) for each in found) == 30


def test_a_slow_call_succeeds_and_is_not_good():
    found = answer("slow")
    assert found.error is None
    assert not found.good(SIMULATED)


def test_a_hung_call_ends_when_its_caller_gives_up():
    found = answer("hung")
    assert isinstance(found.error, TimeoutError)
    assert found.seconds == SIMULATED.timeout_s


def test_a_limited_tool_asks_to_wait_until_the_end_of_the_outage():
    found = answer("rate-limited", at=SIMULATED.recovers_s - 7.0)
    assert isinstance(found.error, ToolError)
    assert found.error.retry_after == pytest.approx(7.0)


def test_a_flapping_tool_is_down_at_both_ends_of_its_outage_and_up_in_between():
    phases = [SIMULATED.healthy_s + (phase + 0.5) * SIMULATED.flap_s for phase in range(5)]
    assert [status(answer("flapping", at=at)) for at in phases] == [503, None, 503, None, 503]


def test_one_bad_process_is_alone_with_its_errors():
    assert status(answer("one bad process", process=0)) == 503
    assert answer("one bad process", process=1).good(SIMULATED)


@pytest.mark.parametrize("timing", [REAL, SIMULATED], ids=["real", "simulated"])
def test_rounds_end_at_different_phases_of_the_wait(timing):
    lengths = [timing.of_round(number).outage_s - timing.outage_s for number in range(5)]
    assert lengths[0] == 0
    assert all(0 <= length < timing.wait_s for length in lengths)
    nearest = min(abs(one - other) for place, one in enumerate(lengths) for other in lengths[:place])
    assert nearest > timing.wait_s / 20


@pytest.mark.parametrize("timing", [REAL, SIMULATED], ids=["real", "simulated"])
def test_every_circuit_can_close_within_the_recovery(timing):
    assert timing.recovery_s > timing.wait_s + timing.cold_s
