"""A function that returns something to await is as good or bad as what comes of it, and that is known when it was awaited."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect

import pytest

from switchgear import (
    BreakerPolicy,
    CachePolicy,
    CircuitOpenError,
    GuardOptions,
    Hooks,
    Switchgear,
    SwitchgearError,
    Usage,
)
from switchgear.guard.deferred_results import DeferredResult
from tests.support.clock import Clock
from tests.support.limits import ANSWER_S
from tests.support.local_client import local_client

QUICK = BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=60)
PROBING = BreakerPolicy(
    consecutive_failures=1, wait_duration_in_open_state_s=0.01, permitted_number_of_calls_in_half_open_state=1
)


class DownError(Exception):
    pass


class Ended(Hooks):
    def __init__(self):
        self.seen = []

    def on_outcome(self, outcome):
        self.seen.append((outcome.status, outcome.error_class))


async def down():
    await asyncio.sleep(0)
    raise DownError("no route")


async def fine(value="found"):
    await asyncio.sleep(0)
    return value


@pytest.fixture(params=["plain", "rich"])
def gear(request):
    """With the shortest guard, and with one that does everything."""
    defaults = GuardOptions(classify=lambda _error: None) if request.param == "rich" else None
    return Switchgear.local(local_policies=QUICK, defaults=defaults)


@pytest.fixture
def half_open():
    """A client with one circuit, half open: a permit that is not given back is missed at once."""
    made = Switchgear.local(local_policies=PROBING)
    made.try_acquire("t").failure(DownError())
    return made


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize("function", [decorated(down), lambda: down()])  # noqa: PLW0108 - no coroutine function
async def test_a_result_that_fails_when_it_is_awaited_opens_the_circuit(gear, function):
    failing = gear.guard("t")(function)
    for _ in range(2):
        with pytest.raises(DownError):
            await failing()
    with pytest.raises(CircuitOpenError):
        failing()


async def test_a_result_that_ends_well_is_a_success_and_gives_its_value(gear):
    found = gear.guard("t")(decorated(fine))
    for _ in range(2):
        assert await found("x") == "x"
        with pytest.raises(DownError):
            await gear.guard("t")(decorated(down))()
    assert await found() == "found"  # never two in a row


async def test_a_deferred_result_is_a_coroutine_for_asyncio(gear):
    found = gear.guard("t")(decorated(fine))
    made = found("awaited")
    assert inspect.isawaitable(made)
    assert await made == "awaited"
    assert await asyncio.create_task(found("task")) == "task"
    assert await asyncio.gather(found("a"), found("b")) == ["a", "b"]
    assert await asyncio.wait_for(found("in time"), ANSWER_S) == "in time"
    assert await asyncio.to_thread(asyncio.run, found("run")) == "run"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("leave", ["dropped", "closed"])
async def test_a_result_that_is_never_awaited_returns_its_permit(half_open, leave):
    found = half_open.guard("t")(decorated(fine))
    await asyncio.sleep(0.02)
    for _ in range(3):
        made = found()
        assert isinstance(made, DeferredResult)
        if leave == "closed":
            made.close()
        del made
        gc.collect()
    assert await found() == "found"
    assert not half_open.is_open("t")


async def test_a_cancelled_result_counts_as_cancelled_and_returns_its_permit(half_open):
    waiting = half_open.guard("t")(decorated(asyncio.sleep))
    await asyncio.sleep(0.02)
    for _ in range(2):
        task = asyncio.create_task(waiting(30))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await waiting(0) is None


@pytest.mark.slow
async def test_a_result_that_is_closed_while_it_runs_returns_its_permit(half_open):
    waiting = half_open.guard("t")(decorated(asyncio.sleep))
    await asyncio.sleep(0.02)
    made = waiting(30)
    made.send(None)
    made.close()
    made = waiting(30)
    made.send(None)
    del made
    gc.collect()
    assert await waiting(0) is None


async def test_an_exception_thrown_into_a_deferred_result_reaches_the_tool(gear):
    seen = []

    async def listening():
        try:
            await asyncio.sleep(30)
        except DownError as error:
            seen.append(error)
            return "heard"

    made = gear.guard("t")(decorated(listening))()
    made.send(None)
    with pytest.raises(StopIteration, match="heard"):
        made.throw(DownError())
    assert len(seen) == 1


async def test_a_future_is_returned_as_it_is_and_its_end_is_reported(gear):
    made = []

    def task(function):
        made.append(asyncio.ensure_future(function()))
        return made[-1]

    start = gear.guard("t")(task)
    assert start(fine) is made[0]
    assert await made[0] == "found"
    for _ in range(2):
        with pytest.raises(DownError):
            await start(down)
    await asyncio.sleep(0)
    assert gear.is_open("t")


async def test_the_end_of_a_future_that_is_done_is_reported(gear):
    def failed():
        future = asyncio.get_running_loop().create_future()
        future.set_exception(DownError())
        return future

    start = gear.guard("t")(failed)
    for _ in range(2):
        with pytest.raises(DownError):
            await start()
    await asyncio.sleep(0)
    assert gear.is_open("t")


class Request:
    """As aiohttp's: to be awaited, or to be entered."""

    url = "https://a.example"

    def __init__(self, works):
        self.work = fine if works else down

    def __await__(self):
        return self.work().__await__()

    async def __aenter__(self):
        return await self.work()

    async def __aexit__(self, *error):
        return False


def requested(works):
    return Request(works)


async def test_entering_a_result_with_async_with_is_the_call(gear):
    get = gear.guard("t")(requested)
    async with get(True) as found:
        assert found == "found"
    assert await get(True) == "found"
    assert get(True).url == "https://a.example"
    with pytest.raises(DownError):
        await get(False)
    with pytest.raises(DownError):
        async with get(False):
            pass
    assert gear.is_open("t")


async def test_an_error_in_the_async_with_block_is_not_a_failure_of_the_tool(gear):
    get = gear.guard("t")(requested)
    for _ in range(5):
        with pytest.raises(DownError):
            async with get(True):
                raise DownError
    assert not gear.is_open("t")


async def test_an_awaitable_that_can_be_iterated_as_well_is_a_plain_result(gear):
    class Query(Request):
        async def __aiter__(self):
            yield 1

    assert isinstance(gear.guard("t")(lambda: Query(True))(), Query)


async def test_an_awaited_result_that_is_an_error_result_counts_as_a_failure():
    hooks = Ended()
    gear = Switchgear.local(hooks=[hooks])
    found = gear.guard("t")(decorated(fine))
    assert (await found({"content": [], "isError": True}))["isError"]
    await found("x")
    assert hooks.seen == [("error", "tool"), ("success", None)]


async def test_the_usage_of_a_deferred_result_is_that_of_its_value(gear):
    found = gear.guard("t", usage=lambda result: Usage(output_tokens=len(result)))(decorated(fine))
    with gear.session("s", token_budget=100) as session:
        await found("four")
    assert session.status().tokens == 4


async def test_a_deferred_result_is_neither_cached_nor_shared(gear):
    found = gear.guard("t", cache=CachePolicy(ttl_s=60), single_flight=True)(decorated(fine))
    assert [await found("x"), await found("x")] == ["x", "x"]
    assert await asyncio.gather(found("y"), found("y")) == ["y", "y"]


@pytest.mark.parametrize("make", [lambda: map(str, [1, 2]), lambda: iter([1, 2]), lambda: (n for n in (1, 2))])
def test_an_iterator_is_not_cached(gear, make, caplog):
    guarded = gear.guard("t", cache=CachePolicy(ttl_s=60), single_flight=True)(make)
    assert len(list(guarded())) == len(list(guarded())) == 2
    assert caplog.text.count("results of t serve once and are not kept") == 1


def test_an_answer_has_the_awaitable_as_its_value(gear):
    made = gear.answer("t", lambda: fine("x"))
    assert made.served_by == "call"
    assert asyncio.run(made.value) == "x"


class Asks:
    async def __call__(self):
        return "never"


def numbers():
    yield 1


@pytest.mark.parametrize("function", [functools.partial(down), Asks(), Asks().__call__])
def test_call_refuses_whatever_is_a_coroutine_function(gear, function):
    for call in (gear.call, gear.answer):
        with pytest.raises(SwitchgearError, match=r"is a coroutine function\. Use acall or aanswer"):
            call("t", function)


async def test_call_and_acall_reject_generator_functions(gear):
    for call in (gear.call, gear.answer):
        with pytest.raises(SwitchgearError, match=r"numbers is a generator function\. Decorate it with guard"):
            call("t", functools.partial(numbers))
    for acall in (gear.acall, gear.aanswer):
        with pytest.raises(SwitchgearError, match="numbers is a generator function"):
            await acall("t", functools.partial(numbers))


async def test_rejects_what_can_not_be_called_and_makes_no_call(half_open):
    await asyncio.sleep(0.02)
    with pytest.raises(SwitchgearError, match="The function must be callable, not 'Oslo'"):
        half_open.call("t", "Oslo")
    with pytest.raises(SwitchgearError, match="The function must be callable, not 'Oslo'"):
        await half_open.acall("t", "Oslo")
    assert half_open.try_acquire("t").probe


SLOW_MS = 400


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["plain", "rich"])
def opens_when_slow(request, clock):
    """As ``gear``, with a circuit that slow calls open."""
    policy = BreakerPolicy(
        slow_call_duration_threshold_ms=SLOW_MS, slow_call_rate_threshold=0.5, minimum_number_of_calls=3
    )
    defaults = GuardOptions(classify=lambda _error: None) if request.param == "rich" else None
    return local_client(clock, local_policies=policy, defaults=defaults)


async def one_by_one(made):
    for each in made:
        await each


async def entered(made):
    for each in made:
        async with each:
            pass


@pytest.mark.parametrize(("function", "use"), [(decorated(fine), one_by_one), (requested, entered)])
async def test_the_time_before_a_result_is_awaited_does_not_count_as_duration(opens_when_slow, clock, function, use):
    guarded = opens_when_slow.guard("t")(function)
    made = [guarded(True) for _ in range(4)]
    clock.now += SLOW_MS / 1000 + 0.05
    await use(made)
    assert not opens_when_slow.is_open("t")


async def test_the_time_that_a_result_is_awaited_for_is_part_of_the_duration(opens_when_slow, clock):
    async def slow():
        await asyncio.sleep(0)
        clock.now += SLOW_MS / 1000 + 0.05

    guarded = opens_when_slow.guard("t")(decorated(slow))
    for _ in range(3):
        await guarded()
    assert opens_when_slow.is_open("t")
