"""The process's own circuits are bounded, and invented names can't make it forget a failing tool."""

from __future__ import annotations

import threading

import pytest

from switchgear.breaker import BreakerPermit, Result, ResultKind
from switchgear.breaker.states import IDLE_S
from switchgear.breaker.values import LOOKED_AT
from switchgear.guard.local_circuits import LocalBreakers, policy_of
from switchgear.guard.rejections import Caller
from switchgear_schemas.policy import LOCAL_DEFAULT, BreakerPolicy
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S, HAPPEN_S


def breakers(limit: int, clock: Clock | None = None, **policy) -> LocalBreakers:
    return LocalBreakers(BreakerPolicy(consecutive_failures=2, **policy), clock or Clock(0.0), limit=limit)


def fail(local: LocalBreakers, tool: str, times: int) -> None:
    for _ in range(times):
        local.get(tool).breaker.record(0.0, Result(ResultKind.FAILURE))


def test_a_tool_keeps_its_breaker():
    local = breakers(10)
    assert local.get("a") is local.get("a")
    assert local.get("a") is not local.get("b")
    assert local.circuits["a"] is local.get("a")


def test_past_the_limit_idle_breakers_make_room():
    clock = Clock(0.0)
    local = breakers(3, clock)
    for tool in "abc":
        local.get(tool)
    clock.now = IDLE_S
    local.get("d")
    assert set(local.circuits) == {"d"}
    assert len(local.all_now()) == 1


def test_a_breaker_whose_slow_call_may_still_run_is_not_evicted_at_once():
    local = breakers(3)
    held = [local.get(tool) for tool in "abc"]
    for number in range(100):
        local.get(f"invented {number}")
    assert [local.get(tool) for tool in "abc"] == held


def test_a_breaker_that_is_open_or_counting_is_never_evicted():
    clock = Clock(0.0)
    local = breakers(3, clock, sliding_window_size=2 * IDLE_S)
    fail(local, "open", 2)
    fail(local, "counting", 1)
    clock.now = IDLE_S + 1
    for number in range(100):
        local.get(f"invented {number}")
        assert len(local.circuits) <= 3
    assert {"open", "counting"} <= set(local.circuits)
    assert local.get("open").breaker.state == "open"
    assert local.not_closed() == {"open": "open"}


def test_a_new_tool_goes_unguarded_if_no_breaker_can_make_room():
    local = breakers(2)
    fail(local, "a", 1)
    fail(local, "b", 1)
    fail(local, "c", 10)
    assert isinstance(local.get("c").breaker.try_acquire(0.0), BreakerPermit)
    assert local.get("d") is local.get("c")
    assert set(local.circuits) == {"a", "b"}


@pytest.mark.slow
def test_a_new_circuit_looks_at_few_breakers_however_many_exist():
    clock = Clock(0.0)
    local = breakers(1_000, clock)
    for number in range(1_000):
        local.get(f"t{number}")
    clock.now = IDLE_S
    local.get("new")
    assert len(local.all_now()) == 1_000 - LOOKED_AT + 1


@pytest.mark.parametrize(("scope", "others"), [("user", ("ben", "s1")), ("session", ("ana", "s2"))])
def test_a_user_or_session_has_a_circuit_of_its_own_if_the_policy_says_so(scope, others):
    local = breakers(10, scope=scope)
    mine = local.get("t", Caller("ana", "s1"))
    assert mine is local.get("t", Caller("ana", "s1"))
    assert mine.breaker.circuit_id in {"t|user=ana", "t|session=s1"}
    assert local.get("t", Caller(*others)) is not mine
    assert local.get("t").breaker.circuit_id == "t"
    assert local.circuits == {}  # no look-up by tool alone may answer for a user
    for _ in range(2):
        mine.breaker.record(0.0, Result(ResultKind.FAILURE))
    assert isinstance(local.get("t", Caller(*others)).breaker.try_acquire(0.0), BreakerPermit)
    assert local.not_closed() == {mine.breaker.circuit_id: "open"}


def test_a_tool_may_have_the_name_of_another_tools_user_circuit():
    clock = Clock(0.0)
    local = LocalBreakers({"t": BreakerPolicy(scope="user", consecutive_failures=2)}, clock, limit=2)
    scoped, named = local.get("t", Caller("ana")), local.get("t|user=ana")
    assert scoped is not named
    assert (scoped.breaker.circuit_id, named.breaker.circuit_id) == ("t|user=ana", "t%7Cuser=ana")
    named.breaker.record(0.0, Result(ResultKind.FAILURE))
    for _ in range(5):
        named.breaker.record(0.0, Result(ResultKind.FAILURE))
    clock.now = IDLE_S
    local.get("new")
    assert local.circuits["t|user=ana"] is named


def test_threads_that_ask_at_once_get_one_breaker_a_tool():
    clock = Clock(0.0)
    local = breakers(40, clock)
    found: list[set[int]] = [set() for _ in range(50)]
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait(ANSWER_S)
        for turn in range(2_000):
            tool = turn % 50
            if tool < 40:
                found[tool].add(id(local.get(f"t{tool}")))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert [len(ids) for ids in found] == [1] * 40 + [0] * 10


def test_the_last_error_is_redacted_once_and_again_when_it_changes():
    circuit = breakers(1).get("a")
    assert circuit.words()[1] is None
    circuit.last_error = "token=abcdefgh123"
    assert circuit.words()[1] == "token=[redacted]"
    assert circuit.words()[1] is circuit.words()[1]
    circuit.last_error = "other"
    assert circuit.words()[1] == "other"


def test_policies_may_be_one_policy_a_mapping_or_a_function():
    own = BreakerPolicy(consecutive_failures=1)
    default = policy_of(None)("a")
    assert default.consecutive_failures == LOCAL_DEFAULT.consecutive_failures
    assert policy_of(own)("a") is own
    assert policy_of({"a": own})("a") is own
    assert policy_of({"a": own})("b") is default
    assert policy_of(lambda _tool: own)("a") is own


def at_once(deed):
    """``deed`` in a thread that is left behind where it waits for itself."""
    found = []
    thread = threading.Thread(target=lambda: found.append(deed()), daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    assert found
    return found[0]


def test_a_nested_call_of_the_same_circuit_does_not_wait_for_its_lock():
    circuit = breakers(10).get("a")

    def nested():
        with circuit.lock, circuit.lock:
            return True

    assert at_once(nested)


def test_a_forked_child_has_free_locks():
    local = breakers(10)
    circuit = local.get("a")
    with circuit.lock, local._lock:
        local._busy = True
        local.forked()
        assert at_once(lambda: local.get("b")) is local.circuits["b"]

        def taken():
            with circuit.lock:
                return True

        assert at_once(taken)
