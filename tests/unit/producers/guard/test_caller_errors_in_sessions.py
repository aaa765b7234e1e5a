"""A session that keeps sending bad arguments: guards of every kind, permits, other sessions, the fleet, and what is shown."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from switchgear import (
    IGNORE,
    BreakerPolicy,
    CachePolicy,
    CallerErrorsError,
    FunctionHooks,
    Switchgear,
    SwitchgearError,
)
from switchgear.testing import InMemoryFleet
from tests.support.limits import HAPPEN_S
from tests.support.rejecting import ends, refused_after_three, weather
from tests.support.waiting import until

REJECTED = {"content": [{"type": "text", "text": "no such city"}], "isError": True}


# -- guards ---------------------------------------------------------------------------------------------------------------


def test_a_session_whose_last_three_calls_were_rejected_is_refused_the_tool(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session("s-1"):
        assert ends(guarded, "a", "b", "c") == ["ValueError"] * 3
        with pytest.raises(CallerErrorsError) as refused:
            guarded("Oslo")
    assert refused.value.text == (
        'Your last 3 calls of weather were rejected: "ValueError: no such city: c".'
        " Change the arguments or use another tool."
    )
    assert (refused.value.source, refused.value.state, refused.value.failures) == ("caller", "open", 3)


def test_after_the_refusal_changed_arguments_are_tried_and_a_success_frees_the_tool(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert refused_after_three(guarded)
        assert ends(guarded, "a", "d", "d", "Oslo") == ["refused", "ValueError", "refused", "sunny in Oslo"]
        assert ends(guarded, "a", "a", "a", "a") == ["ValueError"] * 3 + ["refused"]


def test_arguments_by_name_and_by_position_are_the_same(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert refused_after_three(guarded)
        assert ends(lambda city: guarded(city=city), "a", "c", "Oslo") == ["refused", "refused", "sunny in Oslo"]


def test_the_option_parameters_says_which_arguments_differ(gear):
    guarded = gear.guard("weather", parameters=lambda city: city[0])(weather)
    with gear.session():
        assert refused_after_three(guarded)
        assert ends(guarded, "another", "e") == ["refused", "ValueError"]


def test_arguments_without_a_hash_are_tried_at_every_second_call(gear):
    @gear.guard("weather")
    def rejecting(_thing):
        raise ValueError("no such thing")

    with gear.session():
        found = ends(rejecting, *(object() for _ in range(7)))
    assert found == ["ValueError"] * 3 + ["refused", "ValueError"] * 2


def test_arguments_that_do_not_fit_the_function_count(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert ends(lambda town: guarded(town=town), "a", "b", "c", "Oslo", "Bergen") == ["TypeError"] * 3 + [
            "refused",
            "TypeError",
        ]
        assert ends(lambda town: guarded(town=town), "a", "Bergen") == ["refused", "refused"]
        assert ends(guarded, "Oslo") == ["sunny in Oslo"]
    assert gear.status().caller_errors == 3


async def test_a_coroutine_function_is_refused_like_a_function(gear):
    @gear.guard("weather")
    async def guarded(city):
        await asyncio.sleep(0)
        return weather(city)

    found = []
    async with gear.session():
        for city in ("a", "b", "c", "Oslo", "a", "Bergen"):
            try:
                found.append(await guarded(city))
            except (ValueError, CallerErrorsError) as error:
                found.append(type(error).__name__)
    assert found == ["ValueError"] * 3 + ["CallerErrorsError"] * 2 + ["sunny in Bergen"]


def test_a_stream_is_refused_at_its_first_item(gear):
    @gear.guard("weather")
    def stream(city):
        yield "the weather is"
        yield weather(city)

    with gear.session():
        assert ends(lambda city: list(stream(city)), "a", "b", "c", "Oslo", "a", "Bergen") == [
            *["ValueError"] * 3,
            *["refused"] * 2,
            ["the weather is", "sunny in Bergen"],
        ]


async def test_an_async_stream_is_refused_at_its_first_item(gear):
    @gear.guard("weather")
    async def stream(city):
        yield weather(city)

    found = []
    async with gear.session():
        for city in ("a", "b", "c", "Oslo", "Bergen"):
            try:
                found += [item async for item in stream(city)]
            except (ValueError, CallerErrorsError) as error:
                found.append(type(error).__name__)
    assert found == ["ValueError"] * 3 + ["CallerErrorsError", "sunny in Bergen"]


def test_a_stream_that_its_reader_leaves_changes_nothing(gear):
    @gear.guard("weather")
    def stream(city):
        yield "the weather is"
        yield weather(city)

    with gear.session() as session:
        assert ends(lambda city: list(stream(city)), "a", "b") == ["ValueError"] * 2
        left = stream("Oslo")
        next(left)
        left.close()
        assert ends(lambda city: list(stream(city)), "c", "d") == ["ValueError", "refused"]
    assert session.status().caller_errors == {"weather": 1}


# -- what counts ----------------------------------------------------------------------------------------------------------


def test_results_that_say_that_the_tool_failed_count(gear):
    results = {"Oslo": {"content": [], "isError": False}}
    guarded = gear.guard("weather")(lambda city: results.get(city, REJECTED))
    with gear.session():
        assert ends(guarded, "a", "b", "c", "d", "a", "Oslo") == [
            *[REJECTED] * 3,
            "refused",
            "refused",
            results["Oslo"],
        ]
        assert ends(guarded, "a", "b", "c") == [REJECTED] * 3
        with pytest.raises(CallerErrorsError, match='Your last 3 calls of weather were rejected: "no such city"'):
            guarded("d")


def test_a_guards_own_rule_for_results_and_exceptions_decides_what_counts(gear):
    by_result = gear.guard("a", classify_result=lambda found: "invalid_input" if found == "none" else None)(
        lambda _: "none"
    )
    ignored = gear.guard("b", classify=lambda _: IGNORE)(weather)
    of_server = gear.guard("c", classify=lambda _: "server")(weather)
    with gear.session(policies=BreakerPolicy(consecutive_failures=100)):
        assert ends(by_result, *"wxyz") == ["none"] * 3 + ["refused"]
        assert ends(ignored, *"vwxyz") == ["ValueError"] * 5
        assert ends(of_server, *"vwxyz") == ["ValueError"] * 5


def test_an_outage_starts_afresh(gear):
    errors = iter([ValueError("no")] * 2 + [ConnectionError("down")] + [ValueError("no")] * 3)

    @gear.guard("weather")
    def failing(_city):
        raise next(errors)

    with gear.session():
        assert ends(failing, *"abcdefg") == [*["ValueError"] * 2, "ConnectionError", *["ValueError"] * 3, "refused"]


def test_a_refusal_by_the_circuit_leaves_the_trial_for_later():
    fleet = InMemoryFleet()
    gear = fleet.gear("agent")
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert refused_after_three(guarded)
        fleet.open_circuit("weather")
        assert ends(guarded, "Oslo") == ["CircuitOpenError"]
        fleet.close_circuit("weather")
        assert ends(guarded, "Oslo") == ["sunny in Oslo"]


def test_a_trial_may_be_the_fleets_probe():
    fleet = InMemoryFleet()
    gear = fleet.gear("agent")
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert refused_after_three(guarded)
        fleet.open_circuit("weather", for_s=10)
        fleet.advance(11)
        assert ends(guarded, "a", "Oslo", "a") == ["refused", "sunny in Oslo", "ValueError"]


@pytest.mark.slow
def test_a_trial_for_which_no_thread_is_free_is_there_for_the_next_call():
    gear = Switchgear.local(timed_threads=1)
    guarded = gear.guard("weather", timeout=0.2)(weather)
    go_on = threading.Event()
    with gear.session():
        assert refused_after_three(guarded)
        gear._runtime.threads.start("hangs", 30, lambda: go_on.wait(HAPPEN_S))
        assert ends(guarded, "Oslo") == ["ThreadsBusyError"]
        go_on.set()
        until(lambda: gear._runtime.threads.busy == 0)
        assert ends(guarded, "Oslo") == ["sunny in Oslo"]


# -- sessions -------------------------------------------------------------------------------------------------------------


def test_another_session_and_calls_without_one_are_not_affected(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session("a"):
        assert refused_after_three(guarded)
        with gear.session("b"):
            assert ends(guarded, "a", "Oslo") == ["ValueError", "sunny in Oslo"]
        assert ends(guarded, "a") == ["refused"]
    assert ends(guarded, *"abcdef", "Oslo") == ["ValueError"] * 6 + ["sunny in Oslo"]


def test_errors_in_an_inner_session_do_not_count_in_the_outer_one(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session("outer") as outer:
        for name in ("first", "second"):
            with gear.session(name) as inner:
                assert refused_after_three(guarded)
            assert inner.status().caller_errors == {"weather": 1}
        assert ends(guarded, "a", "Oslo") == ["ValueError", "sunny in Oslo"]
    assert outer.status().caller_errors == {}


def test_leaving_the_session_forgets_its_errors(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session("s-1") as session:
        assert refused_after_three(guarded)
    with session:
        assert refused_after_three(guarded)
    assert session.status().caller_errors == {"weather": 2}


def test_the_limit_of_a_session_the_one_of_the_client_and_none():
    gear = Switchgear.local(max_caller_errors=1)
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert ends(guarded, "a", "b") == ["ValueError", "refused"]
    with gear.session(max_caller_errors=2):
        assert ends(guarded, "a", "b", "c") == ["ValueError"] * 2 + ["refused"]
    with gear.session(max_caller_errors=None):
        assert ends(guarded, *"abcdefg") == ["ValueError"] * 7


def test_a_client_without_a_limit_gives_its_sessions_none_unless_they_ask_for_one():
    gear = Switchgear.local(max_caller_errors=None)
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert ends(guarded, *"abcdefg") == ["ValueError"] * 7
    with gear.session(max_caller_errors=3):
        assert refused_after_three(guarded)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_an_impossible_limit_is_refused_by_name(gear, value):
    with pytest.raises(SwitchgearError, match="max_caller_errors"):
        gear.session(max_caller_errors=value)
    with pytest.raises(SwitchgearError, match="max_caller_errors"):
        Switchgear.local(max_caller_errors=value)


def test_tasks_and_threads_of_a_session_share_its_errors(gear):
    guarded = gear.guard("weather")(weather)

    async def main():
        async with gear.session():
            await asyncio.gather(*(asyncio.to_thread(ends, guarded, city) for city in "abc"))
            assert ends(guarded, "Oslo") == ["refused"]

    asyncio.run(main())


# -- calls without a session ----------------------------------------------------------------------------------------------


def test_the_processs_calls_are_one_session_if_the_user_says_so():
    gear = Switchgear.local(caller_errors_without_session=True)
    guarded = gear.guard("weather")(weather)
    assert refused_after_three(guarded)
    assert gear.is_open("other") is False
    assert ends(guarded, "a", "Oslo", "a") == ["refused", "sunny in Oslo", "ValueError"]
    with gear.session():
        assert ends(guarded, "a", "b", "c") == ["ValueError"] * 3
    assert gear.status().caller_errors == 2


async def test_the_processs_permits_are_one_session_if_the_user_says_so():
    gear = Switchgear.local(caller_errors_without_session=True)
    for _ in range(3):
        gear.try_acquire("t").failure("no such city")
    assert gear.is_open("t")
    assert gear.try_acquire("t").source == "caller"
    assert not gear.is_open("t")
    (await gear.atry_acquire("t")).failure("no such city")
    assert [bool(await gear.atry_acquire("t")) for _ in range(2)] == [False, True]


def test_without_the_option_calls_without_a_session_are_not_counted(gear):
    for _ in range(10):
        gear.try_acquire("t").failure("no such city")
    assert gear.status().caller_errors == 0


# -- permits --------------------------------------------------------------------------------------------------------------


def test_every_second_permit_after_a_refusal_is_a_trial(gear):
    found = []
    with gear.session() as session:
        for _ in range(9):
            answer = gear.try_acquire("t")
            found.append(bool(answer))
            if answer:
                answer.failure("no such city")
    assert found == [True] * 3 + [False, True] * 3
    assert session.status().caller_errors == {"t": 3}
    assert session.status().refused == 0


def test_a_permit_as_a_block_raises_the_error_with_the_text(gear):
    with gear.session():
        for _ in range(3):
            with contextlib.suppress(ValueError), gear.permit("t"):
                raise ValueError("no such city")
        with pytest.raises(CallerErrorsError, match="Change the arguments"), gear.permit("t"):
            pytest.fail("it was entered")


def test_a_permit_that_is_released_or_ignored_is_no_trial(gear):
    with gear.session():
        for _ in range(3):
            gear.try_acquire("t").failure("no such city")
        assert not gear.try_acquire("t")
        gear.try_acquire("t").release()
        gear.try_acquire("t").ignore("no such city")
        gear.try_acquire("t").failure("no such city")
        assert not gear.try_acquire("t")


# -- circuits and the fleet -----------------------------------------------------------------------------------------------


def test_neither_the_sessions_circuit_nor_the_fleets_counts_the_errors_or_the_refusals():
    quick = BreakerPolicy(consecutive_failures=1)
    fleet = InMemoryFleet(quick)
    gear, other = fleet.gear("agent", local_policies=quick), fleet.gear("other agent", local_policies=quick)
    guarded, others = (each.guard("weather")(weather) for each in (gear, other))
    with gear.session("s-1", user_id="ana") as session, other.session("s-2"):
        assert ends(guarded, *"abcdefgh") == ["ValueError"] * 3 + ["refused"] + ["ValueError"] * 4
        assert ends(guarded, *"aaa") == ["refused"] * 3
        assert ends(others, "a", "Oslo") == ["ValueError", "sunny in Oslo"]
    assert (fleet.state("weather"), session.status().circuits) == ("closed", {})
    assert (gear.status().local, gear.status().caller_errors, other.status().caller_errors) == ({}, 4, 0)


def test_a_refusal_is_an_event_with_its_source_session_and_user():
    fleet = InMemoryFleet()
    gear = fleet.gear("agent")
    guarded = gear.guard("weather")(weather)
    with gear.session("s-1", user_id="ana"):
        assert refused_after_three(guarded)
    events = fleet.events("weather")
    assert [event["status"] for event in events] == ["error"] * 3 + ["rejected"]
    rejected = events[-1]
    assert (rejected["session_id"], rejected["user_id"]) == ("s-1", "ana")
    assert rejected["metadata"] == {"refused": 1, "refused_by": "caller"}


def test_the_hook_for_refusals_gets_it():
    seen = []
    gear = Switchgear.local(hooks=[FunctionHooks(on_rejected=seen.append)])
    guarded = gear.guard("weather")(weather)
    with gear.session():
        assert refused_after_three(guarded)
        assert gear.try_acquire("weather")  # the arguments aren't known, so it is a trial
    assert [(refusal.tool, refusal.source, refusal.failures) for refusal in seen] == [("weather", "caller", 3)]


def test_neither_a_fallback_nor_a_stale_result_serves_a_refused_call(gear):
    gear.guard("backup")(lambda city: f"from the backup: {city}")
    guarded = gear.guard("weather", fallback="backup", cache=CachePolicy(ttl_s=0, stale_for_s=60))(weather)
    with gear.session():
        assert ends(guarded, "Oslo", "a", "b", "c", "Oslo") == ["sunny in Oslo", *["ValueError"] * 3, "refused"]


def test_a_fallback_that_rejects_the_arguments_is_counted_by_its_own_name():
    fleet = InMemoryFleet()
    gear = fleet.gear("agent")
    backup = gear.guard("backup")(weather)
    guarded = gear.guard("weather", fallback="backup")(weather)
    fleet.open_circuit("weather")
    with gear.session():
        assert ends(guarded, "a", "b", "c", "d") == ["ValueError"] * 3 + ["CircuitOpenError"]
        assert ends(backup, "a", "b", "e", "Oslo") == ["refused", "refused", "ValueError", "sunny in Oslo"]
        assert ends(guarded, "Bergen") == ["sunny in Bergen"]
