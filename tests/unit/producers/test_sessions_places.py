"""Calls that were let through take a session's places; what a circuit refuses, or lets wait, takes none from the others."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Permit, Rejection, SessionExhaustedError, Switchgear
from switchgear_schemas.circuit import Circuit, Lease
from tests.support.limits import ANSWER_S, HAPPEN_S

QUICK = BreakerPolicy(consecutive_failures=1)


@pytest.fixture
def gear():
    return Switchgear.local(local_policies=QUICK)


def all_of(*work):
    """What ``work`` returned, each in a thread of its own, begun at once."""
    start = threading.Barrier(len(work))

    def begun(function):
        start.wait(ANSWER_S)
        return function()

    with ThreadPoolExecutor(len(work)) as pool:
        return [found.result(HAPPEN_S) for found in [pool.submit(begun, function) for function in work]]


@pytest.mark.slow
def test_a_call_that_the_outer_session_refuses_takes_no_place_in_the_inner_one(gear):
    outer, inner = gear.session(max_calls=1), gear.session(max_calls=2)
    with outer:
        gear.try_acquire("t")

    def within_both():
        with outer, inner:
            return sum(bool(gear.try_acquire("t")) for _ in range(3_000))

    def within_one():
        exhausted = 0
        with inner:
            for _ in range(3_000):
                answer = gear.try_acquire("t")
                if isinstance(answer, Permit):
                    answer.release()
                else:
                    exhausted += 1
        return exhausted

    assert all_of(within_both, within_one) == [0, 0]
    assert (outer.status().calls, inner.status().calls) == (1, 0)


@pytest.mark.slow
def test_lets_exactly_max_calls_through_when_threads_nest_sessions_in_opposite_orders(gear):
    one, other = gear.session(max_calls=700), gear.session(max_calls=700)

    def work(outer, inner):
        with outer, inner:
            return sum(bool(gear.try_acquire("t")) for _ in range(500))

    let_through = all_of(lambda: work(one, other), lambda: work(other, one), lambda: work(one, other))
    assert sum(let_through) == 700
    assert one.status().calls == other.status().calls == 700


def test_refused_probes_do_not_take_the_last_places(gear):
    session = gear.session(max_calls=50)

    def work(tool):
        with session:
            made = 0
            for _ in range(200):
                with contextlib.suppress(CircuitOpenError):
                    gear.call(tool, len, "a")
                    made += 1
            return made

    with session:
        gear.try_acquire("down").failure(ConnectionError())
    made = all_of(*(lambda tool=tool: work(tool) for tool in ("a", "down", "b", "down")))
    assert sum(made) == 49
    assert session.status().calls == 50


def test_an_exhausted_session_takes_no_probe(gear):
    policy = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.001)
    with gear.session(max_calls=1, policies=policy) as session:
        gear.try_acquire("t").failure(ConnectionError())
        threading.Event().wait(0.01)
        assert gear.try_acquire("t").source == "session"
        assert session.status().circuits == {"t": "open"}, "its circuit was not asked"


def test_a_broken_tool_is_not_called_beyond_the_limit(gear):
    with gear.session(max_calls=1) as session:
        gear.try_acquire("t")
        answer = gear._runtime.unguarded("t", lambda _rule: "")
        assert isinstance(answer, Rejection)
        assert answer.source == "session"
        assert session.status().calls == 1


def test_a_permit_that_is_released_while_the_session_counts_does_not_deadlock(gear):
    with gear.session() as session:
        permit = gear.try_acquire("t")
        with session.owner.session_lock:  # as the collector does, which may run anywhere
            permit.release()
        assert session.status().calls == 0


# -- waiting for a probe ----------------------------------------------------------------------------------------------


def publish(gear, *leases):
    """The fleet's circuit of t: open until a while ago, or half-open with ``leases``."""
    now = datetime.now(UTC)
    circuit = Circuit(
        circuit_id="t", tool_name="t", state="half_open" if leases else "open", version=1 + len(leases), generation=1,
        changed_at=now, open_until=now - timedelta(seconds=1), leases=leases,
    )  # fmt: skip
    view = gear._follower.table.apply(b"t", circuit.to_bytes())
    gear._decision.fleet.on_view(view)


@pytest.fixture
def connected(monkeypatch):
    """A client that may ask the fleet for a probe of t."""
    made = Switchgear("127.0.0.1:1", probe_wait=60, local_policies=QUICK)
    made._runtime.started = True
    monkeypatch.setattr(type(made._decision.fleet), "reachable", lambda *_: True)
    publish(made)
    yield made
    made.close(0)


def lease(gear):
    return Lease(
        lease_id="l1", emitter_id=gear._emitter.emitter_id, expires_at=datetime.now(UTC) + timedelta(seconds=30)
    )


async def test_a_call_that_waits_for_a_probe_takes_no_place(connected):
    with connected.session(max_calls=1) as session:
        waiting = asyncio.ensure_future(connected.acall("t", asyncio.sleep, 0, "t"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert session.status().calls == 0
        publish(connected, lease(connected))
        assert await waiting == "t"
        assert session.status().calls == 1


async def test_a_call_that_gets_a_probe_but_no_place_returns_the_probe(connected):
    with connected.session(max_calls=1) as session:
        waiting = asyncio.ensure_future(connected.acall("t", asyncio.sleep, 0, "t"))
        await asyncio.sleep(0.01)
        assert await connected.acall("other", asyncio.sleep, 0, "other") == "other"
        publish(connected, lease(connected))
        with pytest.raises(SessionExhaustedError):
            await waiting
        assert (session.status().calls, session.status().refused) == (1, 1)
    permit = connected.try_acquire("t")
    assert permit.lease_id == "l1"
    permit.release()


async def test_a_call_cancelled_while_it_waits_for_a_probe_returns_no_place(connected):
    with connected.session(max_calls=2) as session:
        waiting = asyncio.ensure_future(connected.acall("t", asyncio.sleep, 0))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert session.status().calls == 0
