"""Leases, generations and calls without a guard, as the worker uses a Breaker."""

import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear_schemas.policy import BreakerPolicy

OK = Result()
BAD = Result(ResultKind.FAILURE)


@pytest.fixture
def breaker() -> Breaker:
    """Opened at 0, probes from 60 on, generation 1."""
    made = Breaker("c", BreakerPolicy(consecutive_failures=1), 0.0)
    made.record_event(0.0, BAD, generation=0, lease_id=None)
    return made


def test_a_lease_before_the_wait_is_over_is_not_given(breaker):
    assert breaker.request_lease(59.9, "p1") is None
    assert breaker.leases == ()


def test_the_first_to_ask_after_the_wait_gets_the_lease_and_the_others_do_not(breaker):
    transition = breaker.request_lease(60.0, "p1")
    assert (transition.previous, transition.state, transition.generation) == ("open", "half_open", 2)
    (lease,) = breaker.leases
    assert (lease.emitter_id, lease.expires_at) == ("p1", 90.0)
    assert breaker.request_lease(60.0, "p2") is None
    assert len(breaker.leases) == 1


def test_the_same_process_keeps_its_lease(breaker):
    breaker.request_lease(60.0, "p1")
    lease = breaker.leases
    assert breaker.request_lease(61.0, "p1") is None
    assert breaker.leases == lease


def test_another_lease_is_reported_so_that_it_can_be_published():
    policy = BreakerPolicy(consecutive_failures=1, permitted_number_of_calls_in_half_open_state=2)
    breaker = Breaker("c", policy, 0.0)
    breaker.record_event(0.0, BAD, generation=0, lease_id=None)
    breaker.request_lease(60.0, "p1")
    transition = breaker.request_lease(61.0, "p2")
    assert (transition.previous, transition.state, transition.generation) == ("half_open", "half_open", 2)
    assert [lease.emitter_id for lease in breaker.leases] == ["p1", "p2"]
    assert breaker.remaining_probes == 0


def test_a_result_under_the_lease_decides(breaker):
    breaker.request_lease(60.0, "p1")
    transition = breaker.record_event(61.0, OK, generation=2, lease_id=breaker.leases[0].lease_id)
    assert (transition.state, breaker.leases) == ("closed", ())


@pytest.mark.parametrize(("generation", "lease"), [(2, None), (2, "2.9"), (1, "2.1"), (0, None)])
def test_a_result_without_the_lease_or_of_an_older_generation_is_dropped(breaker, generation, lease):
    breaker.request_lease(60.0, "p1")
    before = breaker.counts(61.0)
    assert breaker.record_event(61.0, BAD, generation=generation, lease_id=lease) is None
    assert breaker.state == "half_open"
    assert breaker.counts(61.0) == before


def test_an_expired_lease_sends_the_circuit_back_to_open(breaker):
    breaker.request_lease(60.0, "p1")
    lease = breaker.leases[0].lease_id
    transition = breaker.record_event(95.0, OK, generation=2, lease_id=lease)
    assert (transition.state, transition.cause.rule) == ("open", "half_open_timeout")
    assert breaker.open_until == 150.0


def test_a_closed_circuit_drops_results_of_an_older_generation(breaker):
    breaker.request_lease(60.0, "p1")
    breaker.record_event(61.0, OK, generation=2, lease_id=breaker.leases[0].lease_id)
    assert breaker.record_event(62.0, BAD, generation=0, lease_id=None) is None
    assert breaker.state == "closed"
    assert breaker.record_event(62.0, BAD, generation=3, lease_id=None).state == "open"


def test_an_unguarded_caller_counts_while_closed():
    breaker = Breaker("c", BreakerPolicy(consecutive_failures=1), 0.0)
    assert breaker.record_event(0.0, BAD, generation=None, lease_id=None).state == "open"


def test_an_unguarded_call_that_began_after_the_wait_is_free_evidence(breaker):
    assert breaker.record_event(61.0, OK, generation=None, lease_id=None, started_at=59.9) is None
    assert breaker.record_event(61.0, OK, generation=None, lease_id=None) is None
    assert breaker.state == "open"
    transition = breaker.record_event(61.0, OK, generation=None, lease_id=None, started_at=60.0)
    assert (transition.previous, transition.state, transition.generation) == ("half_open", "closed", 3)


def test_a_failing_unguarded_caller_keeps_the_circuit_open(breaker):
    transition = breaker.record_event(61.0, BAD, generation=None, lease_id=None, started_at=60.5)
    assert (transition.state, transition.attempt, transition.open_until) == ("open", 2, 121.0)


def test_an_ignored_outcome_of_an_unguarded_caller_says_nothing(breaker):
    ignored = Result(ResultKind.IGNORED)
    assert breaker.record_event(61.0, ignored, generation=None, lease_id=None, started_at=60.5) is None
    assert breaker.state == "open"


def test_folding_the_same_log_gives_the_same_bytes():
    def fold():
        breaker = Breaker("c", BreakerPolicy(consecutive_failures=2, jitter=0.5, backoff_multiplier=2), 0.0)
        for step in range(500):
            now = step * 7.0
            breaker.request_lease(now, f"p{step % 3}")
            lease = breaker.leases[0].lease_id if breaker.leases else None
            outcome = ResultKind(step * step % 7 % 3)
            breaker.record_event(now, Result(outcome), generation=breaker.generation, lease_id=lease)
        return breaker.snapshot()

    assert fold() == fold()
