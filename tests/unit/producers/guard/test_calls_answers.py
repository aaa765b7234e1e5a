"""What served a caller is visible: the call, a fallback, or the cache, fresh or stale."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from switchgear import (
    Answer,
    BreakerPolicy,
    CachePolicy,
    CallTimeoutError,
    CircuitOpenError,
    SwitchgearError,
)
from switchgear.testing import InMemoryFleet
from tests.support.limits import HAPPEN_S


@pytest.fixture
def fleet():
    return InMemoryFleet()


@pytest.fixture
def remote(fleet):
    """A client of a fleet in memory, whose time the test moves."""
    return fleet.gear(
        "planner", local_policies=BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=600)
    )


def fail(gear, tool):
    gear.try_acquire(tool).failure(ConnectionError("down"))


def test_the_answer_of_a_call_says_that_the_tool_served_it(gear):
    guarded = gear.guard("t")(lambda city: city.upper())
    assert gear.answer(guarded, "oslo") == Answer("OSLO", "t")
    assert gear.answer("t", str.lower, "OSLO") == Answer("oslo", "t", "call", stale=False, age_s=0.0)


async def test_aanswer_returns_the_answer_of_a_coroutine_function(gear):
    async def search(query):
        await asyncio.sleep(0)
        return [query]

    assert await gear.aanswer(gear.guard("t")(search), "x") == Answer(["x"], "t")
    assert await gear.aanswer("t", search, "y") == Answer(["y"], "t")


def test_answer_takes_a_guarded_method(gear):
    class Client:
        name = "a"

        @gear.guard("t")
        def get(self, path):
            return self.name + path

    assert gear.answer(Client().get, "/x") == Answer("a/x", "t")


def test_the_answer_of_a_fallback_names_the_tool_or_function(gear, open_circuit):
    gear.guard("b")(lambda: "b")
    by_tool = gear.guard("a", fallback="b")(lambda: "a")

    def nothing_known():
        return "?"

    by_function = gear.guard("c", fallback=nothing_known)(lambda: "c")
    open_circuit("a")
    open_circuit("c")
    assert gear.answer(by_tool) == Answer("b", "b", "fallback")
    found = gear.answer(by_function)
    assert (found.value, found.served_by) == ("?", "fallback")
    assert found.tool.endswith("nothing_known")


def test_answer_rejects_a_function_that_is_not_guarded(gear):
    with pytest.raises(SwitchgearError, match=r"is not guarded\. Pass a guarded function"):
        gear.answer(len, "abc")
    with pytest.raises(SwitchgearError, match="needs the function that calls t"):
        gear.answer("t")


def test_a_decorator_around_a_guarded_function_is_called(gear):
    guarded = gear.guard("t")(lambda: 1)

    @functools.wraps(guarded)
    def decorated():
        return guarded() + 1

    with pytest.raises(SwitchgearError, match="is not guarded"):
        gear.answer(decorated)
    assert gear.answer("decorated", decorated).value == 2


# -- the cache --------------------------------------------------------------------------------------------------------


def counting(calls):
    def fetch(city, *, days=1):
        calls.append(city)
        return f"{city} {days} {len(calls)}"

    return fetch


def test_a_fresh_result_is_served_without_a_call_and_a_stale_one_only_on_a_refusal(fleet, remote):
    calls = []
    guarded = remote.guard("t", cache=CachePolicy(ttl_s=60, stale_for_s=600))(counting(calls))
    assert remote.answer(guarded, "Oslo") == Answer("Oslo 1 1", "t")
    fleet.advance(30)
    assert remote.answer(guarded, "Oslo") == Answer("Oslo 1 1", "t", "cache", stale=False, age_s=30.0)
    assert guarded("Oslo", days=2) == "Oslo 2 2", "other parameters"
    fleet.advance(31)
    assert remote.answer(guarded, "Oslo") == Answer("Oslo 1 3", "t"), "no longer fresh: the tool is asked"
    fleet.advance(100)
    fail(remote, "t")
    assert remote.answer(guarded, "Oslo") == Answer("Oslo 1 3", "t", "cache", stale=True, age_s=100.0)
    with pytest.raises(CircuitOpenError):
        guarded("Bergen")
    fleet.advance(400)
    fleet.close_circuit("t")
    fleet.advance(161)
    with pytest.raises(CircuitOpenError):
        guarded("Oslo")


def test_a_stale_result_may_be_marked_in_band(fleet, remote):
    policy = CachePolicy(ttl_s=1, stale_for_s=600, mark_stale=lambda value, age_s: f"{value} (as of {age_s:.0f} s ago)")
    guarded = remote.guard("t", cache=policy)(str)
    guarded("x")
    fleet.advance(50)
    fail(remote, "t")
    assert guarded("x") == "x (as of 50 s ago)"


def test_only_a_stale_result_that_is_served_is_marked(fleet, remote):
    marked = []
    policy = CachePolicy(ttl_s=0, stale_for_s=600, mark_stale=lambda value, _age_s: marked.append(value) or value)
    guarded = remote.guard("t", cache=policy)(str)
    assert [guarded("x") for _ in range(5)] == ["x"] * 5
    assert marked == []
    fail(remote, "t")
    assert guarded("x") == "x"
    assert marked == ["x"]


def test_a_mark_stale_that_fails_is_logged_once_a_minute_with_its_tool(remote, caplog):
    policy = CachePolicy(ttl_s=0, stale_for_s=600, mark_stale=lambda value, _age_s: value["x"])
    guarded = remote.guard("t", cache=policy)(str)
    guarded("x")
    fail(remote, "t")
    for _ in range(5):
        with pytest.raises(CircuitOpenError):
            guarded("x")
    assert [record.getMessage() for record in caplog.records if "mark_stale" in record.getMessage()] == [
        "mark_stale of t failed, so the stale result is not served: TypeError: string indices must be integers, not 'str'"
    ]


def test_the_refusal_says_that_the_cache_served_and_a_fresh_hit_sends_no_event(fleet, remote):
    guarded = remote.guard("t", cache=CachePolicy(ttl_s=600))(str)
    guarded("x")
    guarded("x")
    remote.flush()
    assert [event["status"] for event in fleet.events("t")] == ["success"]
    fleet.advance(1000)
    guarded("y")
    fail(remote, "t")
    fleet.advance(0)
    assert remote.answer(guarded, "y").served_by == "cache"


def test_on_a_refusal_a_fallback_goes_before_the_cache(gear, open_circuit):
    gear.guard("b")(lambda: "b")
    guarded = gear.guard("a", fallback="b", cache=CachePolicy(ttl_s=0, stale_for_s=600))(lambda: "a")
    assert guarded() == "a"
    open_circuit("a")
    assert guarded() == "b"


def test_the_result_of_a_fallback_is_not_cached(gear, open_circuit):
    gear.guard("b")(lambda: "b")
    guarded = gear.guard("a", fallback="b", cache=CachePolicy(ttl_s=600))(lambda: "a")
    open_circuit("a")
    assert [gear.answer(guarded).served_by for _ in range(2)] == ["fallback", "fallback"]


def test_arguments_that_are_changed_later_were_what_they_were(gear):
    calls = []

    @gear.guard("t", cache=CachePolicy(ttl_s=600))
    def total(numbers):
        calls.append(list(numbers))
        numbers.append(100)
        return sum(calls[-1])

    numbers = [1, 2]
    assert total(numbers) == 3
    assert total([1, 2]) == 3
    assert total(numbers) == 103
    assert calls == [[1, 2], [1, 2, 100]]


def test_what_identifies_a_call_may_be_chosen(gear):
    calls = []
    guarded = gear.guard("t", cache=CachePolicy(ttl_s=600), parameters=lambda city, **_rest: city.casefold())(
        counting(calls)
    )
    assert guarded("Oslo") == guarded("OSLO", days=3)
    assert calls == ["Oslo"]


# -- single flight ----------------------------------------------------------------------------------------------------


def test_identical_calls_at_once_are_made_once_and_all_have_the_answer(gear):
    calls = []
    go_on = threading.Event()

    @gear.guard("t", single_flight=True)
    def fetch(city):
        calls.append(city)
        go_on.wait(HAPPEN_S)
        return city.upper()

    with ThreadPoolExecutor(9) as pool:
        same = [pool.submit(gear.answer, fetch, "oslo") for _ in range(8)]
        other = pool.submit(fetch, "bergen")
        while len(calls) < 2:
            go_on.wait(0.005)
        go_on.wait(0.05)
        go_on.set()
        assert {found.result(HAPPEN_S) for found in same} == {Answer("OSLO", "t")}
        assert other.result(HAPPEN_S) == "BERGEN"
    assert sorted(calls) == ["bergen", "oslo"]


async def test_identical_coroutines_at_once_are_made_once_also_when_they_fail(gear):
    calls = []

    @gear.guard("t", single_flight=True)
    async def fetch(city):
        calls.append(city)
        await asyncio.sleep(0.02)
        raise ConnectionError("down")

    found = await asyncio.gather(*(fetch("oslo") for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in found] == [ConnectionError] * 5
    assert calls == ["oslo"]
    assert not gear.is_open("t"), "one failure of one call"


def test_options_asked_for_in_an_answer_of_a_guarded_function_replace_its_own(gear, open_circuit):
    class Weather:
        @gear.guard("t", fallback=lambda _city: "its own", timeout=60)
        def forecast(self, city):
            return city

    get = Weather().forecast
    open_circuit("t")
    assert gear.answer(get, "Oslo").value == "its own"
    assert gear.with_options(fallback=lambda _city: "asked for").answer(get, "Oslo").value == "asked for"


def test_a_time_limit_asked_for_in_an_answer_of_a_guarded_function_is_kept(gear):
    slow = gear.guard("t")(lambda: time.sleep(0.2))
    with pytest.raises(CallTimeoutError):
        gear.with_options(timeout=0.02).answer(slow)
