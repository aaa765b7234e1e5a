"""A call that hangs is a slow call of its circuits before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
from switchgear.policies import PolicySet
from switchgear.telemetry.hooks import FunctionHooks
from switchgear.testing import FakeClock
from switchgear_schemas.policy import LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT
from tests.support.limits import ANSWER_S
from tests.support.local_client import local_client
from tests.support.virtual_time import in_virtual_time
from tests.support.waiting import until

SLOW = {"slow_call_duration_threshold_ms": 200, "slow_call_rate_threshold": 0.5}
TWENTY = BreakerPolicy(**SLOW, minimum_number_of_calls=20)
FIRST = BreakerPolicy(**SLOW, minimum_number_of_calls=1)
NEVER_JUDGED = BreakerPolicy(**SLOW, minimum_number_of_calls=1000)
NO_RULE = BreakerPolicy(consecutive_failures=5)
HANGS_S = 3.0


class DownError(Exception):
    """The tool is broken."""


@pytest.fixture
def clock():
    return FakeClock()


def gear_on(clock, policy=NEVER_JUDGED, **options):
    return local_client(clock.monotonic, local_policies=policy, **options)


def counts(gear, clock, tool="t"):
    found = gear._decision.local.circuits[tool].breaker.counts(clock.monotonic())
    return found.calls, found.failed, found.slow


def asked(gear):
    """Ask some circuit that is not quiet, which is when local circuits learn of overdue calls."""
    permit = gear.try_acquire("other")
    if permit:
        permit.release()


def queue(gear):
    return list(gear._decision.reporter.overdue._heap)


def waiting(gear):
    return len(queue(gear))


# -- the done-when ----------------------------------------------------------------------------------------------------


def test_twenty_hung_calls_refuse_the_twenty_first_within_twice_the_threshold(clock):
    gear = gear_on(clock, TWENTY)
    permits = [gear.try_acquire("t") for _ in range(20)]
    clock.advance(0.199)
    assert not gear.is_open("t")
    clock.advance(0.201)
    assert gear.is_open("t")
    refusal = gear.try_acquire("t")
    assert not refusal
    assert (refusal.cause.rule, refusal.cause.sample) == ("slow_call_rate", 20)
    clock.advance(HANGS_S)
    for permit in permits:
        permit.success()
    assert gear._decision.local.circuits["t"].breaker.attempt == 1


@in_virtual_time
async def test_twenty_guarded_coroutines_that_hang_for_three_seconds_open_the_circuit_before_they_end():
    loop = asyncio.get_running_loop()
    gear = local_client(loop.time, local_policies=TWENTY)
    search = gear.guard("t")(lambda: asyncio.sleep(HANGS_S))
    calls = [asyncio.ensure_future(search()) for _ in range(20)]
    await asyncio.sleep(0.4)
    with pytest.raises(CircuitOpenError):
        await search()
    await asyncio.gather(*calls)
    assert loop.time() == HANGS_S


def test_a_hundred_calls_that_take_less_than_the_threshold_are_never_overdue(clock):
    gear = gear_on(clock, FIRST)
    for _ in range(100):
        permit = gear.try_acquire("t")
        clock.advance(0.199)
        permit.success()
    assert not gear.is_open("t")
    assert counts(gear, clock) == (100, 0, 0)


# -- once -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fails", "expected"), [(False, (1, 0, 1)), (True, (1, 1, 1))])
def test_a_call_reports_its_lateness_once(clock, fails, expected):
    gear = gear_on(clock)
    permit = gear.try_acquire("t")
    for _ in range(5):
        clock.advance(0.3)
        asked(gear)
    assert counts(gear, clock) == (1, 0, 1)
    if fails:
        permit.failure(DownError())
    else:
        permit.success()
    assert counts(gear, clock) == expected
    clock.advance(1)
    asked(gear)
    assert counts(gear, clock) == expected


def test_a_call_that_nobody_asked_about_until_it_ended_counts_at_its_end(clock):
    gear = gear_on(clock)
    permit = gear.try_acquire("t")
    clock.advance(HANGS_S)
    permit.success()
    assert counts(gear, clock) == (1, 0, 1)


def test_a_call_is_overdue_the_moment_its_time_is_over(clock):
    gear = gear_on(clock, FIRST)
    clock.advance(100.1)  # whatever the sums of floating-point numbers are
    permit = gear.try_acquire("t")
    clock.advance(0.2)
    assert gear.is_open("t")
    assert permit.wait.local_overdue_ms >= 200


def test_the_duration_that_a_caller_measured_itself_makes_no_second_call(clock):
    gear = gear_on(clock)
    permit = gear.try_acquire("t")
    clock.advance(HANGS_S)
    asked(gear)
    permit.success(duration_ms=5)
    assert counts(gear, clock) == (1, 0, 1)


def test_a_call_that_was_overdue_and_was_not_made_after_all_is_given_back(clock):
    gear = gear_on(clock)
    permit = gear.try_acquire("t")
    clock.advance(HANGS_S)
    permit.release()
    asked(gear)
    assert counts(gear, clock) == (0, 0, 0)


def test_a_probe_that_hangs_opens_the_circuit_again_before_it_ends(clock):
    gear = gear_on(clock, BreakerPolicy(**SLOW, consecutive_failures=1, wait_duration_in_open_state_s=10))
    gear.try_acquire("t").failure(DownError())
    clock.advance(10)
    probe = gear.try_acquire("t")
    assert probe.probe
    clock.advance(0.2)
    refusal = gear.try_acquire("t")
    assert (refusal.state, refusal.cause.rule) == ("open", "probe_slow")
    clock.advance(1)
    probe.success()
    assert gear.is_open("t")


def test_a_hook_is_told_of_the_circuit_that_hung_calls_open(clock):
    moves = []
    gear = gear_on(clock, FIRST, hooks=[FunctionHooks(on_transition=moves.append)])
    held = gear.try_acquire("t")
    clock.advance(1)
    assert not gear.try_acquire("t")
    assert held
    assert [move.state for move in moves] == ["open"]


# -- what is watched --------------------------------------------------------------------------------------------------


def test_calls_of_circuits_without_a_rule_for_slow_calls_are_not_watched(clock):
    gear = gear_on(clock, NO_RULE)
    permit = gear.try_acquire("t")
    assert permit.wait is None
    permit.failure(DownError())
    permit = gear.try_acquire("t")  # the circuit counts a failure, so it is asked
    assert permit.wait is None
    assert waiting(gear) == 0


def test_tools_of_a_family_that_hang_open_it_although_they_have_no_rule_of_their_own(clock):
    policies = PolicySet(
        family={"mcp:maps": {**SLOW, "minimum_number_of_calls": 4}},
        base=LOCAL_DEFAULT,
        family_base=LOCAL_FAMILY_DEFAULT,
    )
    gear = gear_on(clock, policies)
    held = [gear.try_acquire(f"mcp:maps:{tool}") for tool in ("route", "route", "place", "place")]
    clock.advance(0.2)
    refusal = gear.try_acquire("mcp:maps:route")
    assert (refusal.scope, refusal.cause.rule, refusal.cause.tools) == ("family", "slow_call_rate", 2)
    for permit in held:
        permit.success()


def test_hung_calls_of_a_session_open_the_sessions_circuit(clock):
    gear = gear_on(clock, NO_RULE)
    with gear.session(policies=FIRST):
        held = gear.try_acquire("t")
        clock.advance(0.2)
        assert gear.is_open("t")
    assert not gear.is_open("t")
    assert held.wait.local_overdue_ms == 200


def test_the_circuits_of_users_hang_apart(clock):
    gear = gear_on(clock, BreakerPolicy(**SLOW, minimum_number_of_calls=1, scope="user"))
    held = gear.try_acquire("t", user_id="ana")
    clock.advance(0.2)
    assert gear.try_acquire("t", user_id="bob")
    assert not gear.try_acquire("t", user_id="ana")
    assert held


def test_a_dropped_permit_is_never_overdue(clock):
    gear = gear_on(clock, FIRST)
    gear.try_acquire("t")
    gc.collect()
    clock.advance(HANGS_S)
    assert not gear.is_open("t")
    assert waiting(gear) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_reports_no_call_of_its_parent(clock):
    gear = gear_on(clock, FIRST)
    held = gear.try_acquire("t")
    gear._decision.reporter.overdue.forked()
    clock.advance(HANGS_S)
    assert not gear.is_open("t")
    held.success()
    assert waiting(gear) == 0


# -- when the caller waits for the tool -------------------------------------------------------------------------------


def test_a_stream_is_overdue_by_the_wait_for_one_item(clock):
    gear = gear_on(clock)

    @gear.guard("t")
    def stream():
        for seconds in (0.15, 0.15, 0.15, 0.25):
            clock.advance(seconds)
            asked(gear)
            yield counts(gear, clock)

    items = stream()
    seen = []
    for item in items:
        seen.append(item)
        clock.advance(1)  # the reader is slow, and that is not the tool's fault
        asked(gear)
    assert seen == [(0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 1)]
    assert counts(gear, clock) == (1, 0, 1)


def test_a_stream_of_many_items_has_one_entry(clock):
    gear = gear_on(clock)

    @gear.guard("t")
    def stream():
        yield from range(5_000)

    assert max(waiting(gear) for _ in stream()) == 1


@in_virtual_time
async def test_an_async_stream_that_hangs_is_overdue_before_its_item_comes():
    gear = local_client(asyncio.get_running_loop().time, local_policies=FIRST)

    @gear.guard("t")
    async def stream():
        yield 1
        await asyncio.sleep(HANGS_S)
        yield 2

    async def read():
        return [item async for item in stream()]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0.3)
    assert gear.is_open("t")
    assert await reading == [1, 2]


@in_virtual_time
async def test_a_deferred_result_that_nobody_awaits_is_never_overdue():
    loop = asyncio.get_running_loop()
    gear = local_client(loop.time, local_policies=FIRST)
    hanging = gear.guard("t")(lambda: asyncio.sleep(HANGS_S))()
    await asyncio.sleep(60)
    assert not gear.is_open("t")
    awaited = asyncio.ensure_future(hanging)
    await asyncio.sleep(0.1)
    assert not gear.is_open("t")
    await asyncio.sleep(0.2)
    assert gear.is_open("t")
    await awaited


@in_virtual_time
async def test_a_future_runs_on_its_own_and_can_be_overdue_before_it_is_awaited():
    loop = asyncio.get_running_loop()
    gear = local_client(loop.time, local_policies=FIRST)
    future = gear.guard("t")(loop.create_future)()
    await asyncio.sleep(0.3)
    assert gear.is_open("t")
    future.set_result(1)


def test_a_call_with_a_time_limit_is_not_overdue_while_it_waits_for_a_thread(clock):
    gear = gear_on(clock, FIRST, timed_threads=1)
    begun, go_on = threading.Event(), threading.Event()

    def held():
        begun.set()
        go_on.wait(ANSWER_S)

    limited = gear.with_options(timeout=30)
    blocker = threading.Thread(target=lambda: limited.call("blocker", held))
    blocker.start()
    assert begun.wait(ANSWER_S)
    waiter = threading.Thread(target=lambda: limited.call("t", int))
    waiter.start()
    until(lambda: any((held := entry[2]()) and held.tool == "t" and held.wait.since is None for entry in queue(gear)))
    clock.advance(HANGS_S)
    open_while_it_waits = gear.is_open("t")
    go_on.set()
    waiter.join(ANSWER_S)
    blocker.join(ANSWER_S)
    assert not open_while_it_waits


@in_virtual_time
async def test_a_call_cancelled_after_it_was_overdue_is_one_failed_and_slow_call():
    gear = local_client(asyncio.get_running_loop().time, local_policies=NEVER_JUDGED)
    call = gear.guard("t")(lambda: asyncio.sleep(3600))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            hanging = asyncio.ensure_future(call())
            await asyncio.sleep(0.5)
            asked(gear)
            await hanging
    found = gear._decision.local.circuits["t"].breaker.counts(1.0)
    assert (found.calls, found.failed, found.slow) == (1, 1, 1)


# -- bounds and threads -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_quick_calls_leave_nothing_behind(clock):
    gear = gear_on(clock, BreakerPolicy(**{**SLOW, "slow_call_duration_threshold_ms": 3_600_000}))
    most = 0
    for _ in range(20_000):
        gear.try_acquire("t").success()
        most = max(most, waiting(gear))
    assert most < 1_100
    clock.advance(3600)
    assert not gear.is_open("t")
    assert waiting(gear) == 0


def test_calls_under_way_are_kept_when_the_others_are_thrown_away(clock):
    gear = gear_on(clock, NEVER_JUDGED)
    held = [gear.try_acquire("t") for _ in range(5)]
    for _ in range(3_000):
        gear.try_acquire("t").release()
    clock.advance(0.2)
    asked(gear)
    assert counts(gear, clock) == (5, 0, 5)
    assert len(held) == 5


@pytest.mark.slow
def test_calls_that_end_while_they_are_reported_count_once_in_many_threads():
    gear = Switchgear.local(local_policies=BreakerPolicy(**{**SLOW, "slow_call_duration_threshold_ms": 1}))
    gear._decision.local.get("t").breaker.command("metrics_only", 0.0, actor="test")
    calls, threads = 300, 8

    def work():
        for _ in range(calls):
            permit = gear.try_acquire("t")
            gear.is_open("t")
            permit.success()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = gear._decision.local.circuits["t"].breaker.counts(0.0)
    assert found.calls == found.total_calls == calls * threads
