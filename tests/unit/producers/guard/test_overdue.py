"""A call whose caller gives up after it was overdue is a timeout. One that its caller gives up earlier says nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear import BreakerPolicy, CircuitOpenError, Classification, Usage
from switchgear.guard.overdue import given_up, overdue_after_s
from switchgear.integrations.tool_calls import ToolCalls
from switchgear.telemetry.hooks import FunctionHooks
from switchgear.testing import FakeClock, InMemoryFleet
from tests.support.local_client import local_client
from tests.support.table import table
from tests.support.virtual_time import in_virtual_time

FIVE = BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=60)
FIRST = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60)
CANCELLED = Classification("cancelled")
TIMEOUT = Classification("timeout")


def in_loop_time(**options):
    """Return a client whose clock is that of the running loop."""
    loop = asyncio.get_running_loop()
    return local_client(loop.time, **{"local_policies": FIVE, **options})


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def observed(clock, outcomes):
    """A client that records how each call ended."""
    hooks = [FunctionHooks(on_outcome=outcomes.append)]
    return local_client(clock.monotonic, local_policies=FIRST, hooks=hooks)


def classes(outcomes):
    return [outcome.error_class for outcome in outcomes]


async def hang(*_args):
    await asyncio.sleep(3600)


def awaited_later():
    """Return what is to be awaited, without being a coroutine function."""
    return hang()


async def cut_off(seconds, call):
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(call, seconds)


# -- the decision -----------------------------------------------------------------------------------------------------


@table(
    ("error", "found", "waited_ms", "expected"),
    [
        (asyncio.CancelledError(), CANCELLED, 5_000, TIMEOUT),
        (concurrent.futures.CancelledError(), CANCELLED, math.inf, TIMEOUT),
        (asyncio.CancelledError(), CANCELLED, 4_999.9, CANCELLED),
        (asyncio.CancelledError(), CANCELLED, math.nan, CANCELLED),
        (asyncio.CancelledError(), CANCELLED, -math.inf, CANCELLED),
        (KeyboardInterrupt(), CANCELLED, 60_000, CANCELLED),
        (SystemExit(), CANCELLED, 60_000, CANCELLED),
        (GeneratorExit(), CANCELLED, 60_000, CANCELLED),
        ("a person interrupted it", CANCELLED, 60_000, CANCELLED),
        (None, CANCELLED, 60_000, CANCELLED),
        (ConnectionError(), Classification("server", 3), 60_000, Classification("server", 3)),
        (CircuitOpenError, Classification("policy"), 60_000, Classification("policy")),
    ],
)
def test_only_a_caller_who_waited_too_long_makes_a_cancelled_call_a_timeout(error, found, waited_ms, expected):
    assert given_up(error, found, waited_ms, 5_000) == expected


@given(st.floats(min_value=1e-6, max_value=86_400_000))
def test_the_policys_slow_threshold_is_the_limit(slow_ms):
    assert math.isclose(overdue_after_s(slow_ms) * 1000, slow_ms)


def test_without_a_slow_threshold_the_limit_is_five_seconds():
    assert overdue_after_s(None) == 5


# -- every way to call ------------------------------------------------------------------------------------------------


def ways(gear):
    """Return a coroutine function that hangs behind a circuit, for each way to call one."""
    return {
        "search": gear.guard("search")(hang),
        "mcp:weather:search": gear.guard("mcp:weather:search")(hang),
        "options": gear.guard("options", usage=lambda _: 1)(hang),
        "limited": gear.guard("limited", timeout=600)(hang),
        "once": lambda: gear.acall("once", hang),
        "plain": gear.guard("plain")(awaited_later),
        "stream": lambda: read(gear.guard("stream")(one_item_late)),
    }


async def one_item_late():
    await asyncio.sleep(3600)
    yield 1


async def read(stream):
    return [item async for item in stream()]


WAYS = ("search", "mcp:weather:search", "options", "limited", "once", "plain", "stream")


@pytest.mark.parametrize("way", WAYS)
@in_virtual_time
async def test_forty_calls_that_wait_for_cuts_off_after_the_limit_open_the_circuit(way):
    gear = in_loop_time()
    call, refused = ways(gear)[way], 0
    for _ in range(40):
        try:
            await cut_off(6, call())
        except CircuitOpenError:
            refused += 1
    assert refused == 35


@pytest.mark.parametrize("way", WAYS)
@in_virtual_time
async def test_forty_calls_that_wait_for_cuts_off_before_the_limit_count_as_nothing(way):
    gear = in_loop_time()
    call = ways(gear)[way]
    for _ in range(40):
        await cut_off(4, call())
    assert not gear.is_open(way)


@in_virtual_time
async def test_the_slow_threshold_of_the_circuits_policy_is_its_limit():
    slow = BreakerPolicy(
        consecutive_failures=1,
        slow_call_rate_threshold=0.99,
        slow_call_duration_threshold_ms=60_000,
        minimum_number_of_calls=100,
    )
    gear = in_loop_time(local_policies=slow)
    call = gear.guard("report")(hang)
    await cut_off(59, call())
    assert not gear.is_open("report")
    await cut_off(61, call())
    assert gear.is_open("report")


@in_virtual_time
async def test_the_time_before_the_result_is_awaited_is_not_waited():
    gear = in_loop_time(local_policies=FIRST)
    result = gear.guard("t")(awaited_later)()
    await asyncio.sleep(60)
    await cut_off(1, result)
    assert not gear.is_open("t")


# -- streams ----------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_stream_cancelled_while_it_waits_for_an_item_is_a_timeout():
    gear = in_loop_time(local_policies=FIRST)

    @gear.guard("t", usage=lambda item: Usage(output_tokens=item))
    async def stream():
        yield 1
        await hang()

    await cut_off(6, read(stream))
    assert gear.is_open("t")


@in_virtual_time
async def test_a_long_stream_whose_next_item_is_not_late_is_cancelled_without_a_word():
    gear = in_loop_time(local_policies=FIRST)

    @gear.guard("t")
    async def stream():
        while True:
            yield await asyncio.sleep(4)

    await cut_off(3601, read(stream))
    assert not gear.is_open("t")


@in_virtual_time
async def test_a_reader_that_leaves_a_long_stream_between_items_says_nothing():
    gear = in_loop_time(local_policies=FIRST)

    @gear.guard("t")
    async def stream():
        while True:
            yield await asyncio.sleep(1)

    async def slow_reader():
        async with contextlib.aclosing(stream()) as items:
            async for _ in items:
                await asyncio.sleep(3600)

    await cut_off(60, slow_reader())
    assert not gear.is_open("t")


@in_virtual_time
async def test_an_error_that_the_reader_throws_into_a_context_manager_says_nothing():
    gear = in_loop_time(local_policies=FIRST)

    @contextlib.asynccontextmanager
    @gear.guard("t")
    async def connection():
        yield "open"

    async def use():
        async with connection():
            await hang()

    await cut_off(60, use())
    assert not gear.is_open("t")


def test_a_generator_that_is_dropped_long_after_its_last_item_says_nothing(observed, clock, outcomes):
    stream = observed.guard("t")(lambda: (yield from range(3)))()
    next(stream)
    clock.advance(3600)
    stream.close()
    assert classes(outcomes) == ["cancelled"]


# -- who ends the call ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_and_the_end_of_the_program_say_nothing(observed, clock, outcomes, end):
    @observed.guard("t")
    def interrupted():
        clock.advance(3600)
        raise end

    with pytest.raises(end):
        interrupted()
    assert classes(outcomes) == ["cancelled"]


def test_a_coroutine_that_is_dropped_says_nothing(observed, clock, outcomes):
    call = observed.acall("t", hang)
    with pytest.raises(RuntimeError, match="no running event loop"):
        call.send(None)
    assert classes(outcomes) == ["unknown"], "sleep needs a loop"

    @observed.guard("other")
    async def waits():
        await Suspended()

    dropped = waits()
    dropped.send(None)
    clock.advance(3600)
    dropped.close()
    assert classes(outcomes)[1:] == ["cancelled"]


class Suspended:
    """Never continues."""

    def __await__(self):
        yield


def test_a_text_that_says_cancelled_says_nothing(observed, clock, outcomes):
    permit = observed.try_acquire("t")
    clock.advance(3600)
    permit.failure("the user pressed stop", classification="cancelled")
    assert classes(outcomes) == ["cancelled"]


@pytest.mark.parametrize(("duration_ms", "expected"), [(None, "timeout"), (4_999, "cancelled"), (5_000, "timeout")])
def test_a_permits_own_duration_decides_if_there_is_one(observed, clock, outcomes, duration_ms, expected):
    permit = observed.try_acquire("t")
    clock.advance(3600)
    permit.failure(asyncio.CancelledError(), duration_ms=duration_ms)
    assert classes(outcomes) == [expected]


@pytest.mark.parametrize(("seconds", "expected"), [(4, "cancelled"), (5, "timeout")])
def test_a_call_of_an_adapter_that_ends_by_its_cancellation_is_judged_the_same(
    observed, clock, outcomes, seconds, expected
):
    call = ToolCalls(observed).begin("t")
    clock.advance(seconds)
    with pytest.raises(asyncio.CancelledError), call:
        raise asyncio.CancelledError
    assert classes(outcomes) == [expected]


def test_an_ignored_call_stays_ignored_however_long_it_was(observed, clock, outcomes):
    permit = observed.try_acquire("t")
    clock.advance(3600)
    permit.ignore(asyncio.CancelledError())
    assert classes(outcomes) == ["policy"]


# -- what follows -----------------------------------------------------------------------------------------------------


def cancelled_after(gear, clock, seconds, tool="t"):
    permit = gear.try_acquire(tool)
    assert permit, permit
    clock.advance(seconds)
    permit.failure(asyncio.CancelledError())


def test_a_cancelled_probe_that_was_overdue_opens_again_and_an_early_one_is_free(observed, clock):
    cancelled_after(observed, clock, 6)
    assert observed.is_open("t")
    clock.advance(60)
    cancelled_after(observed, clock, 4)
    assert not observed.is_open("t"), "the next call may probe"
    cancelled_after(observed, clock, 6)
    assert not observed.try_acquire("t")
    assert observed.is_open("t")


def test_the_event_of_a_late_cancelled_call_is_a_timeout_and_still_names_the_cancellation():
    fleet = InMemoryFleet(FIRST)
    gear = fleet.gear()
    cancelled_after(gear, fleet.clock, 4)
    assert fleet.state("t") == "closed"
    cancelled_after(gear, fleet.clock, 6)
    found = [(event["status"], event["error_class"], event["error_type"]) for event in fleet.events("t")]
    assert found == [("cancelled", "cancelled", "CancelledError"), ("timeout", "timeout", "CancelledError")]
    assert fleet.state("t") == "open"


def test_a_session_counts_a_late_cancelled_call_as_a_failure_and_an_early_one_not(clock):
    gear = local_client(clock.monotonic, local_policies=FIVE)
    with gear.session("s-1") as session:
        cancelled_after(gear, clock, 4)
        assert session.status().failures == 0
        cancelled_after(gear, clock, 6)
        assert session.status().failures == 1
