"""An owner can end the wait of a circuit early, because something else shows that its tool may work again."""

import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear_schemas.cause import Cause
from switchgear_schemas.policy import BreakerPolicy

RECOVERED = Cause("family_recovered")


def opened(**command) -> Breaker:
    breaker = Breaker("c", BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60), 0.0)
    if command:
        breaker.command(actor="me", **command)
    else:
        breaker.record(0.0, Result(ResultKind.FAILURE))
    return breaker


def test_permits_a_probe_at_once_and_stays_open_in_the_same_generation():
    breaker = opened()
    moved = breaker.end_wait_early(5.0, RECOVERED)
    assert (moved.state, moved.previous, moved.generation, moved.open_until) == ("open", "open", 1, 5.0)
    assert moved.cause == RECOVERED
    granted = breaker.request_lease(5.0, "p")
    assert (granted.state, len(breaker.leases)) == ("half_open", 1)


def test_changes_nothing_the_second_time():
    breaker = opened()
    breaker.end_wait_early(5.0, RECOVERED)
    assert breaker.end_wait_early(6.0, RECOVERED) is None
    assert breaker.open_until == 5.0


@pytest.mark.parametrize(
    "command",
    [
        {"verb": "force_open", "now": 0.0},
        {"verb": "force_open", "now": 0.0, "until": 60.0},
        {"verb": "disable", "now": 0.0},
        {"verb": "reset", "now": 0.0},
    ],
)
def test_leaves_alone_what_an_operator_commanded(command):
    breaker = opened(**command)
    before = breaker.open_until
    assert breaker.end_wait_early(5.0, RECOVERED) is None
    assert breaker.open_until == before


def test_changes_nothing_in_a_circuit_whose_wait_is_over():
    breaker = opened()
    before = breaker.snapshot()
    assert breaker.end_wait_early(60.0, RECOVERED) is None
    assert breaker.snapshot() == before
