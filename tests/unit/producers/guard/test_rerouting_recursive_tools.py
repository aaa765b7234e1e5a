"""A tool that calls itself recovers: its probe does not refuse its own calls."""

from __future__ import annotations

import asyncio
import contextvars
import time
import types

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, SessionExhaustedError, Switchgear
from switchgear.testing import InMemoryFleet

PROBING = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.03)


@pytest.fixture
def gear():
    return Switchgear.local(local_policies=PROBING)


def half_open(gear, tool="t"):
    gear.try_acquire(tool).failure(ConnectionError())
    time.sleep(0.04)


@pytest.mark.parametrize("limit", [None, 10])
def test_a_function_that_calls_itself_recovers(gear, limit):
    @gear.guard("t", timeout=limit)
    def walk(depth):
        return depth if depth == 0 else walk(depth - 1) + 1

    half_open(gear)
    assert walk(3) == 3
    assert gear.status().local == {}


async def test_a_coroutine_function_that_calls_itself_recovers(gear):
    @gear.guard("t")
    async def walk(depth):
        await asyncio.sleep(0)
        return sum(await asyncio.gather(walk(depth - 1), walk(depth - 1))) if depth else 1

    half_open(gear)
    assert await walk(3) == 8
    assert gear.status().local == {}


def test_a_guarded_method_of_a_base_class_may_be_called_by_its_guarded_heir(gear):
    class Base:
        @gear.guard("t")
        def get(self):
            return "base"

    class Heir(Base):
        @gear.guard("t")
        def get(self):
            return f"heir of {super().get()}"

    half_open(gear)
    assert Heir().get() == "heir of base"
    assert gear.status().local == {}


def test_a_recursive_tool_that_fails_within_is_one_failed_probe(gear):
    @gear.guard("t")
    def walk(depth):
        if depth == 0:
            raise ConnectionError
        return walk(depth - 1)

    half_open(gear)
    with pytest.raises(ConnectionError):
        walk(3)
    assert gear.status().local == {"t": "open"}


async def test_a_task_that_outlives_the_probe_asks_for_itself(gear):
    go_on, tasks = asyncio.Event(), []

    async def later():
        await go_on.wait()
        return await walk(0)

    @gear.guard("t")
    async def walk(depth):
        if depth:
            tasks.append(asyncio.ensure_future(later()))
        raise ConnectionError

    half_open(gear)
    with pytest.raises(ConnectionError):
        await walk(1)
    await asyncio.sleep(0.04)
    probe = gear.try_acquire("t")
    assert probe.probe
    go_on.set()
    with pytest.raises(CircuitOpenError):
        await tasks[0]
    probe.release()


def test_calls_of_other_tools_other_clients_and_other_threads_are_still_refused(gear):
    other = Switchgear.local(local_policies=PROBING)
    get = {"t": gear.guard("t")(str), "u": gear.guard("u")(str), "other": other.guard("t")(str)}
    half_open(gear, "u")
    half_open(gear)
    half_open(other)
    probes = [gear.try_acquire("u"), other.try_acquire("t")]

    @gear.guard("t")
    def outer(name):
        return get[name](1)

    for name in ("u", "other"):
        with pytest.raises(CircuitOpenError):
            outer(name)
    assert outer("t") == "1"
    for probe in probes:
        probe.release()


def test_a_session_counts_recursive_calls_within_a_probe(gear):
    @gear.guard("t")
    def walk(depth):
        return depth if depth == 0 else walk(depth - 1)

    with gear.session(max_calls=3) as session:
        half_open(gear)
        walk(1)
        assert session.status().calls == 3
        with pytest.raises(SessionExhaustedError):
            walk(0)


def test_a_recursive_tool_recovers_under_the_fleets_probe():
    fleet = InMemoryFleet(PROBING)
    gear = fleet.gear("planner")

    @gear.guard("t")
    def walk(depth):
        return depth if depth == 0 else walk(depth - 1) + 1

    fleet.report("t", "error", error_class="transport")
    assert gear.is_open("t")
    fleet.advance(1)
    assert walk(2) == 2
    gear.flush()
    assert not gear.is_open("t")


@types.coroutine
def paused():
    yield


def closed_in_another_context(coroutine):
    """As an event loop that ends, or a garbage collection, may do."""
    contextvars.copy_context().run(coroutine.send, None)
    coroutine.close()


def test_a_probe_may_be_closed_in_another_context_than_it_ran_in(gear):
    @gear.guard("t")
    async def hang():
        await paused()

    half_open(gear)
    closed_in_another_context(hang())
    assert gear.try_acquire("t")


def test_a_fallback_function_may_be_closed_in_another_context_than_it_ran_in():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60))

    async def stand_in():
        await paused()

    @gear.guard("t", fallback=stand_in)
    async def tool():
        return "never"

    gear.try_acquire("t").failure(ConnectionError())
    closed_in_another_context(tool())
    assert gear.is_open("t")
