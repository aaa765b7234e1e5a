import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.states import IDLE_S, STALE_S
from switchgear.guard.local_circuits import LocalBreakers
from switchgear.guard.rejections import Caller
from switchgear_schemas.policy import BreakerPolicy, Cusum
from tests.support.clock import Clock

BAD = Result(ResultKind.FAILURE)
TOOL, USER, SESSION = (BreakerPolicy(consecutive_failures=3, scope=scope) for scope in ("tool", "user", "session"))


class Circuits(LocalBreakers):
    """Returns breakers, at an instant that the caller gives."""

    def __init__(self, policy=USER, **limits) -> None:
        self._now = Clock(0.0)
        super().__init__(policy, self._now, **limits)

    def breaker(self, tool_name, now, *, user_id="", session_id="") -> Breaker:
        self._now.now = now
        return self.get(tool_name, Caller(user_id, session_id)).breaker


def test_invented_users_remove_no_other_circuit_and_memory_stays_bounded():
    circuits = Circuits(limit_per_tool=10)
    victim = circuits.breaker("t", 0.0, user_id="victim")
    for _ in range(3):
        victim.record(0.0, BAD)
    assert victim.state == "open"
    for number in range(1000):
        circuits.breaker("t", 1.0, user_id=f"invented{number}").record(1.0, BAD)
    assert circuits.breaker("t", 2.0, user_id="victim") is victim
    assert len(circuits.all_now()) == 11
    assert circuits.breaker("t", 2.0, user_id="one more").circuit_id == "t"


def test_idle_circuits_make_room():
    circuits = Circuits(limit_per_tool=3)
    for number in range(3):
        circuits.breaker("t", 0.0, user_id=f"u{number}").record(0.0, Result())
    assert circuits.breaker("t", IDLE_S, user_id="new").circuit_id == "t|user=new"
    assert len(circuits.all_now()) < 4


@pytest.mark.parametrize("state", ["open", "forced_open", "disabled", "metrics_only"])
def test_a_circuit_that_is_not_simply_closed_never_retires(state):
    circuits = Circuits(limit_per_tool=1)
    held = circuits.breaker("t", 0.0, user_id="held")
    held.transition_to(state, 0.0, actor="ana")
    assert circuits.breaker("t", 1e9, user_id="new").circuit_id == "t"
    assert circuits.breaker("t", 1e9, user_id="held") is held


def test_a_circuit_whose_run_of_failures_has_ended_makes_room():
    circuits = Circuits(limit_per_tool=1)
    circuits.breaker("t", 0.0, user_id="counting").record(0.0, BAD)
    assert circuits.breaker("t", IDLE_S - 1, user_id="new").circuit_id == "t"
    assert circuits.breaker("t", IDLE_S * 2, user_id="newer").circuit_id == "t|user=newer"


def test_a_counting_circuit_does_not_retire_until_its_evidence_is_stale():
    circuits = Circuits(BreakerPolicy(cusum=Cusum(), scope="user"), limit_per_tool=1)
    circuits.breaker("t", 0.0, user_id="counting").record(0.0, BAD)
    assert circuits.breaker("t", 7200.0, user_id="new").circuit_id == "t"
    assert circuits.breaker("t", STALE_S + 1, user_id="newer").circuit_id == "t|user=newer"
