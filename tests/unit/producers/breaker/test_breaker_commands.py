import pytest

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear_schemas.policy import BreakerPolicy

BAD = Result(ResultKind.FAILURE)


def closed(**values) -> Breaker:
    return Breaker("c", BreakerPolicy(**{"consecutive_failures": 2, **values}), 0.0)


def test_forced_open_refuses_whatever_the_time():
    breaker = closed()
    transition = breaker.command("force_open", 0.0, actor="ana", reason="maintenance")
    assert (transition.state, transition.cause.actor, transition.cause.reason) == ("forced_open", "ana", "maintenance")
    refused = breaker.try_acquire(1e6)
    assert isinstance(refused, BreakerRejection)
    assert refused.cause.reason == "maintenance"
    assert breaker.counts(1e6).rejected == 1
    assert breaker.record(1e6, BAD) is None


def test_open_until_an_instant_is_probed_from_then_on():
    breaker = closed()
    assert breaker.command("force_open", 0.0, actor="ana", until=7200.0).open_until == 7200.0
    assert isinstance(breaker.try_acquire(7199.0), BreakerRejection)
    assert breaker.try_acquire(7200.0).probe


def test_open_until_a_later_instant_is_reported_though_the_state_stays():
    breaker = closed()
    breaker.command("force_open", 0.0, actor="ana", until=10.0)
    transition = breaker.command("force_open", 1.0, actor="ana", until=20.0)
    assert (transition.previous, transition.state, transition.generation) == ("open", "open", 1)
    assert breaker.open_until == 20.0


def test_close_closes_from_any_state_and_forgets_the_attempts():
    for verb in ("force_open", "disable", "metrics_only"):
        breaker = closed()
        breaker.command(verb, 0.0, actor="ana")
        assert breaker.command("close", 1.0, actor="ana").state == "closed"
        assert breaker.attempt == 0
    assert breaker.command("close", 1.0, actor="ana") is None


def test_reset_forgets_the_evidence_of_a_closed_circuit():
    breaker = closed()
    breaker.record(0.0, BAD)
    transition = breaker.command("reset", 0.0, actor="ana")
    assert (transition.previous, transition.state) == ("closed", "closed")
    assert breaker.counts(0.0).calls == 0
    assert breaker.record(0.0, BAD) is None


def test_disabled_permits_every_call_and_counts_nothing():
    breaker = closed()
    breaker.command("disable", 0.0, actor="ana")
    for _ in range(10):
        permit = breaker.try_acquire(0.0)
        assert isinstance(permit, BreakerPermit)
        assert breaker.record(0.0, BAD, permit) is None
    assert breaker.counts(0.0).calls == 0


def test_metrics_only_permits_every_call_and_reports_when_it_would_have_opened():
    breaker = closed()
    breaker.command("metrics_only", 0.0, actor="ana")
    assert breaker.record(1.0, BAD) is None
    transition = breaker.record(2.0, BAD)
    assert (transition.previous, transition.state, transition.generation) == ("metrics_only", "metrics_only", 1)
    assert (transition.cause.rule, transition.cause.reason) == ("consecutive_failures", "would have opened")
    assert transition.open_until == 62.0
    assert isinstance(breaker.try_acquire(3.0), BreakerPermit)
    assert breaker.record(3.0, BAD) is None, "it would be open: no second report"
    assert breaker.record(62.0, BAD) is not None
    assert breaker.counts(62.0).total_failed == 4


@pytest.mark.parametrize(("mode", "state"), [("enforce", "closed"), ("metrics_only", "metrics_only")])
def test_auto_ends_a_command_in_the_state_of_the_policys_mode(mode, state):
    breaker = closed(mode=mode)
    breaker.command("force_open", 0.0, actor="ana")
    assert breaker.command("auto", 1.0, actor="ana").state == state


def test_auto_does_not_change_a_state_that_the_rules_decided():
    breaker = closed(consecutive_failures=1)
    assert breaker.command("auto", 0.0, actor="ana") is None
    breaker.record(0.0, BAD)
    assert breaker.command("auto", 0.0, actor="ana") is None
    assert breaker.state == "open"


def test_a_command_that_changes_nothing_returns_no_transition():
    breaker = closed()
    breaker.command("disable", 0.0, actor="ana")
    assert breaker.command("disable", 1.0, actor="bo") is None
    assert breaker.cause.actor == "ana"


def test_drops_results_of_calls_that_began_before_a_command():
    breaker = closed(consecutive_failures=1)
    late = breaker.try_acquire(0.0)
    breaker.command("force_open", 0.0, actor="ana")
    breaker.command("close", 1.0, actor="ana")
    assert breaker.record(2.0, BAD, late) is None
    assert breaker.state == "closed"
