"""Calls with arguments that don't fit say nothing about the tool, and their probe is free again."""

from __future__ import annotations

import asyncio
import functools
import time

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.telemetry.hooks import FunctionHooks
from switchgear.testing import InMemoryFleet


class Client:
    def get(self, city):
        return city

    def __call__(self, city):
        return city


def get(city):
    return city


def broken(city):
    return city + 1


async def aget(city):
    return city


async def abroken(city):
    return city + 1


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def half_open(outcomes):
    """A client whose tool t may be probed once."""
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.02),
        hooks=[FunctionHooks(on_outcome=outcomes.append)],
    )
    gear.try_acquire("t").failure(ConnectionError())
    time.sleep(0.03)
    outcomes.clear()
    return gear


@pytest.mark.parametrize("limit", [None, 30])
@pytest.mark.parametrize("function", [get, Client().get, Client(), functools.partial(get)])
def test_a_call_that_never_reached_the_tool_closes_no_circuit(half_open, outcomes, function, limit):
    guarded = half_open.guard("t", timeout=limit)(function)
    for wrong in ((), ("Oslo", "Bergen", 3)):
        with pytest.raises(TypeError):
            guarded(*wrong)
    with pytest.raises(TypeError):
        guarded(town="Oslo")
    assert outcomes == []
    assert half_open.status().local == {"t": "half_open"}
    assert half_open.try_acquire("t").probe


@pytest.mark.parametrize("limit", [None, 30])
async def test_arguments_that_dont_fit_a_coroutine_function_close_no_circuit(half_open, outcomes, limit):
    guarded = half_open.guard("t", timeout=limit)(aget)
    with pytest.raises(TypeError):
        await guarded(town="Oslo")
    assert outcomes == []
    assert half_open.status().local == {"t": "half_open"}
    assert await guarded("Oslo") == "Oslo"
    assert half_open.status().local == {}


@pytest.mark.parametrize("limit", [None, 30])
async def test_a_type_error_of_the_tools_own_is_an_outcome(half_open, outcomes, limit):
    with pytest.raises(TypeError):
        half_open.guard("t", timeout=limit)(broken)("Oslo")
    with pytest.raises(TypeError):
        await half_open.guard("t", timeout=limit)(abroken)("Oslo")
    with pytest.raises(TypeError):
        half_open.with_options(timeout=limit).call("t", len, 5)
    assert [one.error_class for one in outcomes] == ["invalid_input"] * 3


async def test_a_type_error_of_an_awaited_result_is_an_outcome(half_open, outcomes):
    future = asyncio.get_running_loop().create_future()
    future.set_exception(TypeError("of the future"))
    with pytest.raises(TypeError, match="of the future"):
        await half_open.acall("t", lambda: future)
    assert [one.error_class for one in outcomes] == ["invalid_input"]


def test_arguments_that_dont_fit_count_as_no_call_of_the_session():
    gear = Switchgear.local()
    guarded = gear.guard("t")(get)
    with gear.session(max_calls=1) as session:
        with pytest.raises(TypeError):
            guarded()
        assert session.status().calls == 0
        assert guarded("Oslo") == "Oslo"


# -- guards without options, which take a short way -------------------------------------------------------------------


def failures_of(fleet):
    """The endings of the tool's calls, after the first."""
    return [(one["status"], one.get("error_class")) for one in fleet.events("t")][1:]


def test_arguments_that_dont_fit_send_no_event_and_end_no_run_of_failures():
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=3))
    other, gear = fleet.gear("other"), fleet.gear("planner")
    guarded = gear.guard("t")(get)
    guarded("Oslo")
    for _ in range(3):
        for wrong in ((), ("Oslo", "Bergen")):
            with pytest.raises(TypeError):
                guarded(*wrong)
        other.try_acquire("t").failure(ConnectionError())
    assert fleet.state("t") == "open"
    assert failures_of(fleet) == [("error", "transport")] * 3


async def test_arguments_that_dont_fit_a_coroutine_function_send_no_event():
    fleet = InMemoryFleet()
    guarded = fleet.gear("planner").guard("t")(aget)
    assert await guarded("Oslo") == "Oslo"
    with pytest.raises(TypeError):
        await guarded(town="Oslo")
    assert failures_of(fleet) == []


async def test_arguments_that_dont_fit_open_no_circuit_that_counts_invalid_input():
    policy = BreakerPolicy(consecutive_failures=1, counted_error_classes={"invalid_input"})
    gear = Switchgear.local(local_policies=policy)
    guarded, coroutine = gear.guard("t")(get), gear.guard("u")(aget)
    for _ in range(2):
        assert (guarded("Oslo"), await coroutine("Oslo")) == ("Oslo", "Oslo")
        with pytest.raises(TypeError):
            guarded()
        with pytest.raises(TypeError):
            await coroutine()


async def test_a_type_error_from_within_the_tool_is_an_event_on_a_guard_without_options():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    plain, coroutine, of_c = gear.guard("t")(broken), gear.guard("t")(abroken), gear.guard("t")(len)
    assert of_c("Oslo") == 4
    with pytest.raises(TypeError):
        plain("Oslo")
    with pytest.raises(TypeError):
        await coroutine("Oslo")
    with pytest.raises(TypeError):
        of_c(5)
    assert failures_of(fleet) == [("error", "invalid_input")] * 3


# -- guarded functions within each other ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"timeout": 30}])
def test_a_tool_that_calls_another_one_wrongly_was_reached_itself(options):
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    inner = gear.guard("inner", **options)(get)

    @gear.guard("t", **options)
    def outer(*wrong):
        return inner("Oslo", *wrong)

    assert outer() == "Oslo"
    with pytest.raises(TypeError):
        outer("Bergen")
    assert failures_of(fleet) == [("error", "invalid_input")]
    assert len(fleet.events("inner")) == 1


def test_two_guards_ignore_arguments_that_dont_fit_and_both_count_an_error():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    twice = gear.guard("t")(gear.guard("inner")(get))
    twice("Oslo")
    with pytest.raises(TypeError):
        twice()
    assert failures_of(fleet) == []
    twice_of_c = gear.guard("t")(gear.guard("inner")(len))
    with pytest.raises(TypeError):
        twice_of_c(5)
    assert failures_of(fleet) == [("error", "invalid_input")]
