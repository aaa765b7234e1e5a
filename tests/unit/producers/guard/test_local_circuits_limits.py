import pytest

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind
from switchgear.breaker.states import IDLE_S, STALE_S
from switchgear.breaker.values import circuit_id_of
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


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(TOOL, "t"), (USER, "t|user=ana"), (SESSION, "t|session=s1")],
    ids=["tool", "user", "session"],
)
def test_the_scope_decides_whose_circuit_a_call_asks(policy, expected):
    assert circuit_id_of("t", policy, "ana", "s1") == expected
    assert circuit_id_of("t", policy) == "t"
    assert Circuits(policy).breaker("t", 0.0, user_id="ana", session_id="s1").circuit_id == expected


def test_looking_up_a_name_twice_gives_the_same_breaker():
    circuits = Circuits()
    assert circuits.breaker("t", 0.0, user_id="a") is circuits.breaker("t", 9.0, user_id="a")
    assert circuits.breaker("t", 0.0, user_id="b") is not circuits.breaker("t", 0.0, user_id="a")
    assert len(circuits.all_now()) == 2


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


def test_invented_tools_remove_no_other_circuit_and_the_rest_passes():
    circuits = Circuits(TOOL, limit=5)
    kept = circuits.breaker("kept", 0.0)
    kept.record(0.0, BAD)
    for number in range(100):
        breaker = circuits.breaker(f"invented{number}", 1.0)
        for _ in range(10):
            breaker.record(1.0, BAD)
    late = circuits.breaker("late", 2.0)
    assert isinstance(late.try_acquire(2.0), BreakerPermit)
    assert late.counts(2.0).calls == 0
    assert circuits.breaker("kept", 2.0) is kept
    assert len(circuits.all_now()) == 5


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


def test_an_idle_tool_makes_room_for_another():
    circuits = Circuits(TOOL, limit=2)
    circuits.breaker("a", 0.0)
    circuits.breaker("b", IDLE_S).record(IDLE_S, BAD)
    assert circuits.breaker("c", IDLE_S).circuit_id == "c"
    assert {circuit.breaker.circuit_id for circuit in circuits.all_now()} == {"b", "c"}
