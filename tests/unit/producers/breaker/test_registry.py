import pytest

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind
from switchgear.breaker.breaker import IDLE_S, STALE_S
from switchgear.breaker.registry import CircuitsByRecency, circuit_id_of
from switchgear_schemas.policy import BreakerPolicy

BAD = Result(ResultKind.FAILURE)
TOOL, USER, SESSION = (BreakerPolicy(consecutive_failures=3, scope=scope) for scope in ("tool", "user", "session"))


class Owner(CircuitsByRecency[Breaker]):
    """Keeps its breakers as they are."""

    def get(self, tool_name, now, *, user_id="", session_id="") -> Breaker:
        return self._find(tool_name, now, user_id, session_id)

    def _hold(self, breaker):
        return breaker

    def _may_retire(self, circuit, now):
        return circuit.may_retire(now)


def owner(policy=USER, **limits) -> Owner:
    return Owner(lambda _: policy, **limits)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(TOOL, "t"), (USER, "t|user=ana"), (SESSION, "t|session=s1")],
    ids=["tool", "user", "session"],
)
def test_the_scope_decides_whose_circuit_a_call_asks(policy, expected):
    assert circuit_id_of("t", policy, "ana", "s1") == expected
    assert circuit_id_of("t", policy) == "t"
    assert owner(policy).get("t", 0.0, user_id="ana", session_id="s1").circuit_id == expected


def test_looking_up_a_name_twice_gives_the_same_breaker():
    circuits = owner()
    assert circuits.get("t", 0.0, user_id="a") is circuits.get("t", 9.0, user_id="a")
    assert circuits.get("t", 0.0, user_id="b") is not circuits.get("t", 0.0, user_id="a")
    assert len(circuits) == 2


def test_invented_users_remove_no_other_circuit_and_memory_stays_bounded():
    circuits = owner(max_circuits_per_tool=10)
    victim = circuits.get("t", 0.0, user_id="victim")
    for _ in range(3):
        victim.record(0.0, BAD)
    assert victim.state == "open"
    for number in range(1000):
        circuits.get("t", 1.0, user_id=f"invented{number}").record(1.0, BAD)
    assert circuits.get("t", 2.0, user_id="victim") is victim
    assert len(circuits) == 11
    assert circuits.get("t", 2.0, user_id="one more").circuit_id == "t"


def test_invented_tools_remove_no_other_circuit_and_the_rest_passes():
    circuits = owner(TOOL, max_tools=5)
    kept = circuits.get("kept", 0.0)
    kept.record(0.0, BAD)
    for number in range(100):
        breaker = circuits.get(f"invented{number}", 1.0)
        for _ in range(10):
            breaker.record(1.0, BAD)
    late = circuits.get("late", 2.0)
    assert isinstance(late.try_acquire(2.0), BreakerPermit)
    assert late.counts(2.0).calls == 0
    assert circuits.get("kept", 2.0) is kept
    assert len(circuits) == 5


def test_idle_circuits_make_room():
    circuits = owner(max_circuits_per_tool=3)
    for number in range(3):
        circuits.get("t", 0.0, user_id=f"u{number}").record(0.0, Result())
    assert circuits.get("t", IDLE_S, user_id="new").circuit_id == "t|user=new"
    assert len(circuits) < 4


@pytest.mark.parametrize("state", ["open", "forced_open", "disabled", "metrics_only"])
def test_a_circuit_that_is_not_simply_closed_never_retires(state):
    circuits = owner(max_circuits_per_tool=1)
    held = circuits.get("t", 0.0, user_id="held")
    held.transition_to(state, 0.0, actor="ana")
    assert circuits.get("t", 1e9, user_id="new").circuit_id == "t"
    assert circuits.get("t", 1e9, user_id="held") is held


def test_a_counting_circuit_does_not_retire_until_its_evidence_is_stale():
    circuits = owner(max_circuits_per_tool=1)
    circuits.get("t", 0.0, user_id="counting").record(0.0, BAD)
    assert circuits.get("t", 7200.0, user_id="new").circuit_id == "t"
    assert circuits.get("t", STALE_S + 1, user_id="newer").circuit_id == "t|user=newer"


def test_an_idle_tool_makes_room_for_another():
    circuits = owner(TOOL, max_tools=2)
    circuits.get("a", 0.0)
    circuits.get("b", IDLE_S).record(IDLE_S, BAD)
    assert circuits.get("c", IDLE_S).circuit_id == "c"
    assert {breaker.circuit_id for breaker in circuits} == {"b", "c"}
