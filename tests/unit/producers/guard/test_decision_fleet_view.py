"""The fleet's circuits decide as long as the fleet can be asked; else the process's own breakers do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
from switchgear_schemas.circuit import Cause, Circuit, Lease

NO_BROKER = "127.0.0.1:1"


@pytest.fixture
def gear():
    made = Switchgear(NO_BROKER, service="test", local_policies=BreakerPolicy(consecutive_failures=2))
    made._runtime.started = True  # the table is fed by hand
    yield made
    made.close(0)


def publish(gear, state, *, tool="t", version=1, until=60.0, leases=(), circuit_id=None, **fields):
    now = datetime.now(UTC)
    circuit = Circuit(
        circuit_id=circuit_id or tool, tool_name=tool, state=state, version=version, generation=version, changed_at=now,
        open_until=None if until is None else now + timedelta(seconds=until), leases=leases, **fields,
    )  # fmt: skip
    view = gear._follower.table.apply(circuit.circuit_id.encode(), circuit.to_bytes())
    if view is not None:
        gear._decision.fleet.on_view(view)


def my_lease(gear, name="l1", seconds=30.0):
    return Lease(
        lease_id=name, emitter_id=gear._emitter.emitter_id, expires_at=datetime.now(UTC) + timedelta(seconds=seconds)
    )


def test_an_open_circuit_of_the_fleet_refuses_and_says_why(gear):
    publish(
        gear,
        "open",
        cause=Cause(rule="failure_rate", value=0.7, threshold=0.5),
        last_error="TimeoutError: x",
        fallback=("b",),
    )
    rejection = gear.try_acquire("t")
    assert (rejection.source, rejection.state, rejection.generation) == ("fleet", "open", 1)
    assert rejection.reason == "failure_rate 0.7 reached 0.5"
    assert 58 < rejection.retry_after_s <= 60
    assert (rejection.last_error, rejection.fallback) == ("TimeoutError: x", "b")


def test_a_lower_version_does_not_close_an_open_circuit_and_a_higher_one_does(gear):
    publish(gear, "open", version=5)
    publish(gear, "closed", version=4)
    assert not gear.try_acquire("t")
    publish(gear, "closed", version=6)
    assert gear.try_acquire("t")


def test_a_permit_names_the_generation_that_let_it_through(gear):
    assert gear.try_acquire("t").generation is None
    gear._follower.loaded = True
    assert gear.try_acquire("t").generation == 0
    publish(gear, "closed", version=4)
    assert gear.try_acquire("t").generation == 4


def test_one_call_uses_the_lease_of_this_process_and_the_rest_are_refused(gear):
    publish(gear, "half_open", until=-1, leases=(my_lease(gear),))
    probe = gear.try_acquire("t")
    assert (probe.lease_id, probe.probe) == ("l1", True)
    assert not gear.try_acquire("t")
    assert gear.try_acquire("t").retry_after_s is None


def test_a_released_lease_is_for_the_next_call(gear):
    publish(gear, "half_open", until=-1, leases=(my_lease(gear),))
    gear.try_acquire("t").release()
    assert gear.try_acquire("t").lease_id == "l1"


def test_a_refusal_by_the_local_breaker_does_not_spend_the_lease(gear):
    for _ in range(2):
        gear.try_acquire("t").failure(TimeoutError())
    publish(gear, "half_open", until=-1, leases=(my_lease(gear),))
    assert gear.try_acquire("t").source == "local"
    assert gear._decision.fleet.take_lease("t", "l1")


def test_a_lease_of_another_process_refuses(gear):
    other = Lease(lease_id="x", emitter_id="other", expires_at=datetime.now(UTC) + timedelta(seconds=30))
    publish(gear, "half_open", until=-1, leases=(other,))
    assert not gear.try_acquire("t")


def test_the_local_breaker_decides_after_the_wait_if_the_fleet_cant_be_asked(gear):
    publish(gear, "open", until=60)
    assert not gear.try_acquire("t")
    publish(gear, "open", version=2, until=-0.001)
    permit = gear.try_acquire("t")
    assert permit
    assert permit.lease_id is None
    for _ in range(2):
        gear.try_acquire("t").failure(TimeoutError())
    assert gear.try_acquire("t").source == "local"


@pytest.mark.parametrize(
    ("state", "mode"),
    [("metrics_only", "enforce"), ("disabled", "enforce"), ("open", "metrics_only"), ("open", "disabled")],
)
def test_an_operators_override_lets_every_call_through_past_the_local_breaker(gear, state, mode):
    for _ in range(2):
        gear.try_acquire("t").failure(TimeoutError())
    assert not gear.try_acquire("t")
    publish(gear, state, mode=mode)
    for _ in range(10):
        gear.try_acquire("t").failure(TimeoutError())
    assert gear.try_acquire("t")
    assert not gear.is_open("t")


def test_a_forced_open_tool_is_not_called_even_if_all_fallbacks_are_open(gear):
    gear.guard("b")(lambda: "b")
    t = gear.guard("t", fallback="b")(lambda: "t")
    publish(gear, "forced_open", until=None, cause=Cause(rule="command", actor="ann", reason="maintenance"))
    assert t() == "b"
    publish(gear, "forced_open", tool="b", until=None)
    with pytest.raises(CircuitOpenError) as refused:
        t()
    assert "command by ann: maintenance" in refused.value.message


def test_the_fleets_own_fallback_is_used_where_the_guard_names_none(gear):
    gear.guard("b")(lambda: "b")
    t = gear.guard("t")(lambda: "t")
    publish(gear, "open", fallback=("b",))
    assert t() == "b"


def test_a_circuit_of_one_user_refuses_that_user_alone(gear):
    publish(gear, "open", circuit_id="t|user=u1", scope="user")
    assert not gear.try_acquire("t", user_id="u1")
    assert gear.try_acquire("t", user_id="u2")
    assert gear.try_acquire("t")


def test_a_circuit_of_one_session_refuses_that_session_alone(gear):
    publish(gear, "open", circuit_id="t|session=s1", scope="session")
    assert not gear.try_acquire("t", session_id="s1")
    assert gear.try_acquire("t", session_id="s2")


async def test_an_open_fleet_circuit_refuses_coroutine_functions(gear):
    publish(gear, "open")
    assert not await gear.atry_acquire("t")
    with pytest.raises(CircuitOpenError):
        async with gear.permit("t"):
            pytest.fail("the block must not run")


def test_circuits_returns_the_fleets_circuits_as_followed(gear):
    publish(gear, "open")
    assert gear.circuits()["t"].state == "open"
    assert gear.status().follower.circuits == 1


def test_every_outcome_is_emitted_with_what_let_it_through(gear):
    publish(gear, "half_open", version=3, until=-1, leases=(my_lease(gear),))
    gear.try_acquire("t", user_id="u", session_id="s", request_id="r").success(output_tokens=7, metadata={"a": 1})
    gear.try_acquire("x").failure(TimeoutError("too long"))
    (first, _), (second, _) = gear._emitter.buffer.take(10)
    assert (first.tool_name, first.status, first.generation, first.lease_id) == ("t", "success", 3, "l1")
    assert (first.user_id, first.session_id, first.request_id) == ("u", "s", "r")
    assert (first.output_tokens, first.metadata) == (7, {"a": 1})
    assert (second.status, second.error_class, second.error_type, second.error_message) == (
        "timeout", "timeout", "TimeoutError", "too long"
    )  # fmt: skip


def test_parameters_are_hashed_under_the_key_alone():
    keyed = Switchgear(NO_BROKER, parameters_key=b"k")
    bare = Switchgear(NO_BROKER)
    for gear in (keyed, bare):
        gear._runtime.started = True
        gear.call("t", lambda **_: None, city="Oslo")
        gear.call("t", lambda **_: None, city="Oslo")
    first, second = (event.parameters_hash for event, _ in keyed._emitter.buffer.take(10))
    assert first == second
    assert first is not None
    assert [event.parameters_hash for event, _ in bare._emitter.buffer.take(10)] == [None, None]
    keyed.close(0)
    bare.close(0)


def test_a_call_of_a_session_carries_the_highest_generation_of_its_circuits_or_its_result_would_be_void(gear):
    publish(gear, "closed", version=3)
    publish(gear, "closed", version=9, circuit_id="t|session=s1", scope="session")
    assert gear.try_acquire("t", session_id="s1").generation == 9
    assert gear.try_acquire("t", session_id="s2").generation == 3


def test_an_operators_disabled_circuit_outranks_a_closed_one_of_a_session(gear):
    publish(gear, "disabled", version=3)
    publish(gear, "closed", version=9, circuit_id="t|session=s1", scope="session")
    assert gear.try_acquire("t", session_id="s1").generation == 3


def test_the_circuit_of_a_user_refuses_no_tool_of_that_name(gear):
    publish(gear, "open", circuit_id="t|user=u1", scope="user")
    assert gear.try_acquire("t|user=u1")
    publish(gear, "open", tool="t|session=s1", circuit_id="t%7Csession=s1")
    assert gear.try_acquire("t", session_id="s1")
    refused = gear.try_acquire("t|session=s1")
    assert (refused.source, refused.tool, refused.scope) == ("fleet", "t|session=s1", "tool")
    assert gear.is_open("t|session=s1")
    assert not gear.is_open("t")


def test_a_guarded_function_follows_the_circuit_of_its_own_name(gear):
    @gear.guard(tool="t|user=u1")
    def call():
        return "done"

    assert call() == call() == "done"
    publish(gear, "open", circuit_id="t|user=u1", scope="user")
    assert call() == "done"
    publish(gear, "open", tool="t|user=u1", circuit_id="t%7Cuser=u1")
    with pytest.raises(CircuitOpenError):
        call()
