"""Identical calls of tasks at the same time are made once, also across event loops and threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from switchgear import SessionExhaustedError, Switchgear
from switchgear.caching.single_flight import SingleFlight
from tests.support.flights import LIMIT, ended, followers, in_threads
from tests.support.waiting import auntil, until


class DownError(Exception):
    pass


@pytest.fixture
def flights():
    return SingleFlight(wait_s=LIMIT)


async def test_tasks_share_one_execution(flights):
    made = 0
    gate = asyncio.Event()

    async def call():
        nonlocal made
        made += 1
        await gate.wait()
        return "rain"

    tasks = [asyncio.create_task(flights.ado("k", call)) for _ in range(20)]
    await auntil(lambda: followers(flights) == 19)
    gate.set()
    found = await asyncio.gather(*tasks)
    assert made == 1
    assert {shared.value for shared in found} == {"rain"}
    assert sum(shared.leader for shared in found) == 1
    assert len(flights) == 0


async def test_an_exception_is_shared_among_tasks(flights):
    gate = asyncio.Event()

    async def call():
        await gate.wait()
        raise DownError

    tasks = [asyncio.create_task(flights.ado("k", call)) for _ in range(5)]
    await auntil(lambda: followers(flights) == 4)
    gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [DownError] * 5


async def test_cancelling_a_follower_leaves_the_others_waiting(flights):
    gate = asyncio.Event()

    async def call():
        await gate.wait()
        return "rain"

    leader, follower, other = (asyncio.create_task(flights.ado("k", call)) for _ in range(3))
    await auntil(lambda: followers(flights) == 2)
    follower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await follower
    gate.set()
    assert await leader == ("rain", True)
    assert await other == ("rain", False)


async def test_if_the_leader_is_cancelled_a_follower_makes_the_call(flights):
    made = 0
    gate = asyncio.Event()

    async def call():
        nonlocal made
        made += 1
        await gate.wait()
        return made

    tasks = [asyncio.create_task(flights.ado("k", call)) for _ in range(5)]
    await auntil(lambda: followers(flights) == 4)
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    await auntil(lambda: followers(flights) == 3)
    gate.set()
    found = await asyncio.gather(*tasks[1:])
    assert made == 2
    assert {shared.value for shared in found} == {2}
    assert sum(shared.leader for shared in found) == 1
    assert len(flights) == 0


async def test_nothing_is_left_after_all_callers_were_cancelled(flights):
    tasks = [asyncio.create_task(flights.ado("k", lambda: asyncio.sleep(LIMIT))) for _ in range(5)]
    await auntil(lambda: followers(flights) == 4)
    for task in tasks:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in found)
    assert len(flights) == 0


async def test_a_task_that_waited_too_long_makes_the_call_itself():
    flights = SingleFlight(wait_s=0.05)
    hung = asyncio.create_task(flights.ado("k", lambda: asyncio.sleep(LIMIT)))
    await auntil(lambda: len(flights) == 1)

    async def mine():
        return "mine"

    assert await flights.ado("k", mine) == ("mine", True)
    hung.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hung


async def test_after_its_own_flight_a_task_follows_others(flights):
    await flights.ado("k", lambda: asyncio.sleep(0))
    gate = asyncio.Event()
    leading = asyncio.create_task(flights.ado("k", gate.wait))
    await auntil(lambda: len(flights) == 1)
    following = asyncio.create_task(flights.ado("k", gate.wait))
    await auntil(lambda: followers(flights) == 1)
    gate.set()
    assert (await leading).leader
    assert not (await following).leader


def test_tasks_of_several_loops_and_threads_share_one_flight(flights):
    made, found, release = [], [], threading.Event()

    def call():
        made.append(1)
        release.wait(LIMIT)
        return "rain"

    async def acall():
        return await asyncio.to_thread(call)

    def work(number):
        if number % 2:
            found.append(flights.do("k", call))
        else:
            found.append(asyncio.run(flights.ado("k", acall)))

    threads = in_threads(8, work)
    until(lambda: followers(flights) == 7)
    release.set()
    ended(threads)
    assert len(made) == 1
    assert [shared.value for shared in found] == ["rain"] * 8


def test_a_follower_whose_event_loop_was_closed_disturbs_no_other_caller(flights, caplog):
    release, started = threading.Event(), threading.Event()

    def call():
        started.set()
        release.wait(LIMIT)
        return "rain"

    found = []
    threads = in_threads(1, lambda _number: found.append(flights.do("k", call)))
    started.wait(LIMIT)

    async def impatient():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flights.ado("k", lambda: asyncio.sleep(0)), 0.05)

    asyncio.run(impatient())
    release.set()
    ended(threads)
    assert found == [("rain", True)]
    assert not caplog.records


async def test_a_task_that_a_flight_started_follows_others_once_the_flight_is_over(flights):
    started = []
    landed, gate = asyncio.Event(), asyncio.Event()

    async def background():
        await landed.wait()
        return await flights.ado("k", gate.wait)

    async def call():
        started.append(asyncio.create_task(background()))

    await flights.ado("k", call)
    leading = asyncio.create_task(flights.ado("k", gate.wait))
    await auntil(lambda: len(flights) == 1)
    landed.set()
    await auntil(lambda: followers(flights) == 1)
    gate.set()
    assert (await leading).leader
    assert not (await started[0]).leader


async def test_each_task_makes_a_call_whose_result_serves_one_caller(flights):
    gate = asyncio.Event()

    async def call():
        await gate.wait()
        return iter("x")

    tasks = [asyncio.create_task(flights.ado("k", call, serves=lambda _value: False)) for _ in range(4)]
    await auntil(lambda: followers(flights) == 3)
    gate.set()
    assert [list(shared.value) for shared in await asyncio.gather(*tasks)] == [["x"]] * 4


async def test_of_tasks_that_waited_too_long_one_makes_the_call():
    flights, made = SingleFlight(wait_s=0.1), []

    async def call():
        made.append(1)
        if len(made) == 1:
            await asyncio.sleep(LIMIT)
        await auntil(lambda: followers(flights) == 4)
        return "again"

    tasks = [asyncio.create_task(flights.ado("k", call)) for _ in range(6)]
    found = await asyncio.gather(*tasks[1:])
    assert sorted(found) == [("again", False)] * 4 + [("again", True)]
    assert len(made) == 2
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]


# -- of a client ------------------------------------------------------------------------------------------------------


async def test_an_exhausted_session_does_not_share_the_flight_of_another_session():
    gear = Switchgear.local()
    gate = asyncio.Event()

    @gear.guard("page", single_flight=True)
    async def page(_url: str) -> str:
        await gate.wait()
        return "a page"

    with gear.session("ana"):
        flying = [asyncio.create_task(page("https://a.example")) for _ in range(2)]
    await auntil(lambda: len(gear._runtime.flights) == 1)
    with gear.session("over", max_calls=1):
        gear.call("other", str)
        with pytest.raises(SessionExhaustedError):
            await page("https://a.example")
    gate.set()
    assert await asyncio.gather(*flying) == ["a page", "a page"]


async def test_sessions_with_the_same_id_do_not_share_flights():
    gear = Switchgear.local()

    @gear.guard("page", single_flight=True, usage=lambda _text: 60)
    async def page(_url: str) -> str:
        await asyncio.sleep(0.01)
        return "a page"

    async def read():
        with gear.session("ana") as session:
            await page("https://a.example")
        return session.status().tokens

    assert await asyncio.gather(read(), read()) == [60, 60]


async def test_a_function_and_a_coroutine_function_of_one_tool_do_not_share_a_flight():
    gear = Switchgear.local()
    single = gear.with_options(single_flight=True, parameters=lambda url: url)
    gate = asyncio.Event()

    @single.guard("page")
    async def apage(_url):
        await gate.wait()
        return "by the coroutine"

    page = single.guard("page")(lambda _url: "by the function")
    flying = asyncio.create_task(apage("https://a.example"))
    await auntil(lambda: len(gear._runtime.flights) == 1)
    assert page("https://a.example") == "by the function"
    gate.set()
    assert await flying == "by the coroutine"


async def test_followers_wait_as_long_as_the_time_limit_of_the_tool(monkeypatch):
    gear = Switchgear.local()
    monkeypatch.setattr(gear._runtime.flights, "_wait_s", 0.01)
    calls = []

    @gear.guard("page", single_flight=True, timeout=LIMIT)
    async def page(url):
        calls.append(url)
        await asyncio.sleep(0.1)
        return url

    assert await asyncio.gather(page("a"), page("a"), page("a")) == ["a"] * 3
    assert calls == ["a"]


@pytest.mark.slow
async def test_under_load_every_caller_gets_the_result_of_its_own_key(flights):
    """Many keys, many tasks, random cancellation: no caller hangs, none gets another key's result, nothing is left."""
    made = 0

    async def call(key):
        nonlocal made
        made += 1
        await asyncio.sleep(0.001)
        if made % 7 == 0:
            raise DownError
        return key

    async def one(number):
        key = str(number % 5)
        try:
            return (await flights.ado(key, lambda: call(key))).value == key
        except DownError:
            return True

    tasks = [asyncio.create_task(one(number)) for number in range(600)]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), LIMIT)
    assert all(one is True or isinstance(one, asyncio.CancelledError) for one in found)
    assert made < 300
    assert len(flights) == 0
