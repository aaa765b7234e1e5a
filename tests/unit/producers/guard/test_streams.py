"""A generator's outcome is that of the whole iteration; one that its reader leaves is cancelled, and leaks nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
import types

import pytest

from switchgear import BreakerPolicy, CallTimeoutError, CircuitOpenError, Switchgear, Usage
from switchgear.telemetry.hooks import FunctionHooks
from tests.support.virtual_time import in_virtual_time

PROBING = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.05)


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def observed(outcomes):
    """A client that records how each call ended."""
    return Switchgear.local(local_policies=PROBING, hooks=[FunctionHooks(on_outcome=outcomes.append)])


def endings(outcomes):
    return [(outcome.status, outcome.error_class) for outcome in outcomes]


def numbers(fail_at=None, error=ConnectionError):
    for number in range(3):
        if number == fail_at:
            raise error
        yield number


async def anumbers(fail_at=None, error=ConnectionError):
    for number in numbers(fail_at, error):
        await asyncio.sleep(0)
        yield number


async def items(stream):
    return [item async for item in stream]


def test_a_generator_read_to_its_end_is_one_success(observed, outcomes):
    stream = observed.guard("t")(numbers)
    assert list(stream()) == [0, 1, 2]
    assert endings(outcomes) == [("success", None)]


async def test_an_async_generator_read_to_its_end_is_one_success(observed, outcomes):
    assert await items(observed.guard("t")(anumbers)()) == [0, 1, 2]
    assert endings(outcomes) == [("success", None)]


def test_an_exception_of_a_generator_is_one_failure(observed, outcomes):
    stream = observed.guard("t")(numbers)
    with pytest.raises(ConnectionError):
        list(stream(fail_at=2))
    assert endings(outcomes) == [("error", "transport")]
    with pytest.raises(CircuitOpenError):
        list(stream())


async def test_an_exception_of_an_async_generator_is_one_failure(observed, outcomes):
    with pytest.raises(ConnectionError):
        await items(observed.guard("t")(anumbers)(fail_at=2))
    assert endings(outcomes) == [("error", "transport")]


@pytest.mark.slow
def test_a_generator_that_is_never_read_does_not_ask_the_circuit(observed, outcomes):
    observed.guard("t")(numbers)()
    gc.collect()
    assert outcomes == []
    assert observed.try_acquire("t")


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["close", "forget", "break"])
def test_leaving_a_generator_early_is_not_a_failure_and_returns_the_permit(observed, outcomes, leave):
    observed.try_acquire("t").failure(ConnectionError())
    time.sleep(0.06)  # the next call is the only probe
    stream = observed.guard("t")(numbers)()
    if leave == "break":
        for _ in stream:
            break
    else:
        next(stream)
    assert not observed.try_acquire("t"), "the probe is out"
    if leave == "close":
        stream.close()
    del stream
    gc.collect()
    assert endings(outcomes)[1:] == [("cancelled", "cancelled")]
    assert observed.try_acquire("t").probe, "it came back"


@pytest.mark.parametrize("leave", ["aclose", "cancel"])
async def test_leaving_an_async_generator_early_is_not_a_failure(observed, outcomes, leave):
    observed.try_acquire("t").failure(ConnectionError())
    await asyncio.sleep(0.06)

    @observed.guard("t")
    async def endless():
        while True:
            yield 1
            await asyncio.sleep(0.001)

    async def read():
        async for _ in endless():
            pass

    if leave == "aclose":
        stream = endless()
        await anext(stream)
        await stream.aclose()
    else:
        task = asyncio.ensure_future(read())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert endings(outcomes)[1:] == [("cancelled", "cancelled")]
    assert observed.try_acquire("t").probe


async def test_leaving_an_async_generator_runs_the_clean_up_of_the_tool(observed):
    cleaned = []

    @observed.guard("t")
    async def stream():
        try:
            yield 1
            yield 2
        finally:
            cleaned.append("async")

    @observed.guard("u")
    def plain():
        try:
            yield 1
            yield 2
        finally:
            cleaned.append("sync")

    found = stream()
    await anext(found)
    await found.aclose()
    lines = plain()
    next(lines)
    lines.close()
    assert cleaned == ["async", "sync"]


def test_values_exceptions_and_the_result_pass_through_a_generator(observed, outcomes):
    @observed.guard("t")
    def talk():
        heard = []
        while len(heard) < 2:
            try:
                heard.append((yield len(heard)))
            except KeyError:
                heard.append("thrown")
        return heard

    found = talk()
    assert next(found) == 0
    assert found.send("a") == 1
    with pytest.raises(StopIteration) as end:
        found.throw(KeyError())
    assert end.value.value == ["a", "thrown"]
    assert endings(outcomes) == [("success", None)]


async def test_values_and_exceptions_pass_through_an_async_generator(observed):
    @observed.guard("t")
    async def talk():
        heard = None
        for _ in range(2):
            try:
                heard = yield heard
            except KeyError:
                heard = "thrown"

    found = talk()
    assert await anext(found) is None
    assert await found.asend("a") == "a"
    with pytest.raises(StopAsyncIteration):
        await found.athrow(KeyError())


def test_the_time_between_two_items_does_not_count_as_duration(observed, outcomes):
    for _ in observed.guard("t")(numbers)():
        time.sleep(0.05)
    assert outcomes[0].duration_ms < 100, "three times 50 ms were the reader's"


def test_the_usage_of_a_stream_is_the_sum_of_its_items(gear):
    @gear.guard("t", usage=lambda item: Usage(output_tokens=item))
    def stream():
        yield from (1, 2, 4)

    with gear.session() as session:
        assert list(stream()) == [1, 2, 4]
    assert session.status().tokens == 7


@in_virtual_time
async def test_a_time_limit_of_an_async_generator_is_for_each_item(observed, outcomes):
    @observed.guard("t", timeout=1)
    async def stream(pauses):
        for pause in pauses:
            await asyncio.sleep(pause)
            yield pause

    assert await items(stream([0.4, 0.4, 0.4])) == [0.4, 0.4, 0.4]
    with pytest.raises(CallTimeoutError, match=r"t did not answer within 1 s"):
        await items(stream([0.0, 60]))
    assert endings(outcomes) == [("success", None), ("timeout", "timeout")]


def test_a_generator_does_not_fall_back_on_a_guarded_function(gear, open_circuit, caplog):
    @gear.guard("a", fallback=["function", "b"])
    def primary():
        yield "a"

    gear.guard("function")(lambda: ["never"])
    gear.guard("b")(lambda: (yield "b"))
    open_circuit("a")
    assert list(primary()) == ["b"]
    assert "function can't stand in for a: a function in place of a generator" in caplog.text


# -- arguments that don't fit, and errors of the reader ---------------------------------------------------------------


async def test_a_stream_whose_arguments_do_not_fit_leaves_the_probe_to_the_next_call(observed, outcomes):
    @observed.guard("t")
    def stream(numbers):
        yield from numbers

    @observed.guard("t")
    async def astream(numbers):
        for number in numbers:
            yield number

    observed.try_acquire("t").failure(ConnectionError())
    await asyncio.sleep(0.06)
    for wrong in (stream(), stream([1], 2), stream(strings=1)):
        with pytest.raises(TypeError):
            list(wrong)
    with pytest.raises(TypeError):
        await items(astream())
    assert endings(outcomes)[1:] == [], "nothing was called"
    assert observed.status().local == {"t": "half_open"}
    assert list(stream([1])) == [1]
    assert observed.status().local == {}


def test_an_error_in_the_with_block_of_a_guarded_context_manager_counts_as_cancelled(observed, outcomes):
    commits = []

    @contextlib.contextmanager
    @observed.guard("db")
    def connection(on_commit=None):
        yield "connection"
        if on_commit is not None:
            raise on_commit
        commits.append(1)

    for _ in range(3):
        with pytest.raises(RuntimeError, match="my bug"), connection():
            raise RuntimeError("my bug")
    with pytest.raises(StopIteration), connection():
        raise StopIteration
    assert endings(outcomes) == [("cancelled", "cancelled")] * 4
    with connection():
        pass
    assert commits == [1]
    with pytest.raises(ConnectionError), connection(on_commit=ConnectionError("the commit failed")):
        pass
    assert endings(outcomes)[4:] == [("success", None), ("error", "transport")]


async def test_an_error_in_the_async_with_block_of_a_guarded_context_manager_counts_as_cancelled(observed, outcomes):
    @contextlib.asynccontextmanager
    @observed.guard("db")
    async def connection():
        try:
            yield "connection"
        except KeyError:
            raise ConnectionError("the roll-back failed") from None

    for error in (RuntimeError, ConnectionError, TimeoutError):
        with pytest.raises(error, match="my bug"):
            async with connection():
                raise error("my bug")
    assert endings(outcomes) == [("cancelled", "cancelled")] * 3
    with pytest.raises(ConnectionError, match="roll-back"):
        async with connection():
            raise KeyError("my bug")
    assert endings(outcomes)[3:] == [("error", "transport")]


# -- functions that stand in ------------------------------------------------------------------------------------------


async def test_values_and_exceptions_pass_through_an_async_generator_that_stands_in(gear, open_circuit):
    heard = []

    async def other():
        try:
            for number in range(3):
                try:
                    heard.append((yield number))
                except KeyError:
                    heard.append("thrown")
        finally:
            heard.append("cleaned up")

    stream = gear.guard("t", fallback=other)(anumbers)()
    open_circuit("t")
    assert await anext(stream) == 0
    assert await stream.asend("sent") == 1
    assert await stream.athrow(KeyError()) == 2
    await stream.aclose()
    assert heard == ["sent", "thrown", "cleaned up"]


@pytest.mark.slow
async def test_an_item_that_comes_after_its_cancellation_is_a_timeout(observed, outcomes):
    @observed.guard("t", timeout=0.02)
    async def stream(swallows):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if swallows == "and fails":
                raise ValueError("cut off") from None
        if swallows == "and goes on":
            yield "late"

    for swallows in ("and goes on", "and ends", "and fails"):
        with pytest.raises(CallTimeoutError):
            await items(stream(swallows))
        await asyncio.sleep(0.06)
    assert set(endings(outcomes)) == {("timeout", "timeout")}


@pytest.mark.parametrize("items_before", [0, 1])
def test_a_stream_that_is_left_while_it_makes_an_item_took_that_time(observed, outcomes, items_before):
    @observed.guard("t")
    async def stream():
        for _ in range(items_before):
            yield 1
        await types.coroutine(lambda: (yield))()

    reading = items(stream())
    reading.send(None)
    time.sleep(0.1)
    reading.close()
    assert endings(outcomes) == [("cancelled", "cancelled")]
    assert outcomes[0].duration_ms >= 90
