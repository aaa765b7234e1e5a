from itertools import permutations

import pytest

from switchgear.breaker import Breaker, IllegalTransitionError
from switchgear.breaker.states import STATE_OF_MODE, STATES
from switchgear_schemas.policy import LOCAL_DEFAULT


def test_a_closed_circuit_cannot_jump_to_half_open():
    breaker = Breaker("c", LOCAL_DEFAULT, 0.0)
    with pytest.raises(IllegalTransitionError) as caught:
        breaker.transition_to("half_open", 0.0, actor="me")
    assert "From closed: disabled, forced_open, metrics_only, open." in str(caught.value)
    assert breaker.state == "closed"
    assert breaker.generation == 0


@pytest.mark.parametrize(("mode", "state"), STATE_OF_MODE.items())
def test_a_policys_mode_is_the_state_a_circuit_starts_in(mode, state):
    assert Breaker("c", LOCAL_DEFAULT.model_copy(update={"mode": mode}), 0.0).state == state


def test_every_legal_transition_can_be_made_and_is_reported():
    for state, wanted in permutations(STATES, 2):
        if (state, wanted) != ("closed", "half_open"):
            breaker = Breaker("c", LOCAL_DEFAULT, 0.0)
            for step in ("open", "half_open") if state == "half_open" else (state,):
                breaker.transition_to(step, 0.0, actor="me")
            generation = breaker.generation
            transition = breaker.transition_to(wanted, 1.0, actor="me", reason="why")
            assert (transition.previous, transition.state, transition.generation) == (state, wanted, generation + 1)
            assert (transition.cause.rule, transition.cause.actor, transition.cause.reason) == ("command", "me", "why")
            assert breaker.transition_to(wanted, 1.0, actor="me") is None
