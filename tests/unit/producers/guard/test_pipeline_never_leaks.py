"""No permit is leaked, and no call is lost or made twice, however the call ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear import BreakerPolicy, CircuitOpenError, Permit, Switchgear
from tests.support.clock import Clock
from tests.support.limits import READY_S
from tests.support.local_client import local_client

WAIT_S = 60.0
STAY_S = 30.0
OPEN_UNTIL_LONG_AGO = b"""{"circuit_id": "tool", "tool_name": "tool", "state": "open", "version": 3, "generation": 1,
 "changed_at": "2026-01-01T00:00:00Z", "open_until": "2026-01-01T00:01:00Z"}"""


class DownError(Exception):
    """The tool is broken."""


def client(clock: Clock, permits: int = 1, **policy) -> Switchgear:
    """A local client on a clock of ours."""
    return local_client(
        clock,
        local_policies=BreakerPolicy(
            consecutive_failures=2,
            wait_duration_in_open_state_s=WAIT_S,
            max_wait_duration_in_half_open_state_s=STAY_S,
            permitted_number_of_calls_in_half_open_state=permits,
            **policy,
        ),
    )


def due_for_a_probe(clock: Clock | None = None) -> Switchgear:
    """A client whose circuit is open and lets the next call through as a probe."""
    clock = clock or Clock()
    gear = client(clock)
    for _ in range(2):
        gear.try_acquire("tool").failure(DownError())
    clock.now += WAIT_S
    return gear


def breaker_of(gear: Switchgear):
    return gear._decision.local.get("tool").breaker


def probes_out(gear: Switchgear) -> int:
    return len(breaker_of(gear).leases)


def raising(error: BaseException):
    raise error


ENDS = {
    "answer": lambda: "found",
    "error": lambda: raising(DownError()),
    "tool": lambda: raising(ValueError("bad argument")),
    "cancelled": lambda: raising(asyncio.CancelledError()),
    "interrupted": lambda: raising(KeyboardInterrupt()),
    "exit": lambda: raising(SystemExit(1)),
    "generator exit": lambda: raising(GeneratorExit()),
}


def by_guard(gear, work):
    return gear.guard("tool")(work)()


def by_call(gear, work):
    return gear.call("tool", work)


def by_block(gear, work):
    with gear.permit("tool"):
        return work()


def by_coroutine(gear, work):
    async def tool():
        await asyncio.sleep(0)
        return work()

    coroutine = gear.guard("tool")(tool)()
    try:  # driven by hand: an event loop would take the BaseExceptions for its own
        while True:
            coroutine.send(None)
    except StopIteration as ended:
        return ended.value


def by_generator(gear, work):
    def tool():
        yield work()

    return next(gear.guard("tool")(tool)())


WAYS = [by_guard, by_call, by_block, by_coroutine, by_generator]
step = st.one_of(
    st.tuples(st.sampled_from(WAYS), st.sampled_from(sorted(ENDS))),
    st.sampled_from([0.5, STAY_S, WAIT_S, WAIT_S + STAY_S]),
)


@pytest.mark.slow
@given(steps=st.lists(step, max_size=25), permits=st.integers(1, 3))
def test_after_every_call_no_probe_is_out_and_each_permitted_call_was_made_once(steps, permits):
    clock = Clock()
    gear = client(clock, permits)
    for one in steps:
        if isinstance(one, float):
            clock.now += one
            continue
        way, end = one
        made = []

        def work(made=made, end=end):
            made.append(probes_out(gear))
            return ENDS[end]()

        try:
            way(gear, work)
        except CircuitOpenError:
            assert made == []
        except BaseException as error:  # noqa: BLE001 - the call's own
            assert type(error) is not AssertionError
            assert len(made) == 1
        else:
            assert len(made) == 1
        assert all(out <= permits for out in made)
        if not (way is by_generator and end == "answer" and made):  # one that is not at its end is still under way
            assert probes_out(gear) == 0
    clock.now += WAIT_S + STAY_S
    assert gear.guard("tool")(ENDS["answer"])() == "found"


report = st.sampled_from(["success", "failure", "text", "release", "twice", "forgotten"])


@pytest.mark.slow
@given(
    calls=st.lists(st.tuples(st.floats(0, WAIT_S), report, st.integers(0, 5)), max_size=40), permits=st.integers(1, 3)
)
def test_permits_that_are_reported_late_twice_or_never_block_nothing(calls, permits):
    clock = Clock()
    gear = client(clock, permits)
    held: list[tuple[Permit, str]] = []

    def end(permit: Permit, how: str) -> None:
        if how == "success":
            permit.success()
        elif how == "failure":
            permit.failure(DownError())
        elif how == "text":
            permit.failure("no such city")
        elif how == "release":
            permit.release()
        elif how == "twice":
            permit.failure(DownError())
            permit.success()

    for seconds, how, keep in calls:
        clock.now += seconds
        answer = gear.try_acquire("tool")
        if answer:
            held.append((answer, how))
        assert probes_out(gear) <= permits
        while len(held) > keep:
            end(*held.pop(0))
    held.clear()  # dropped without a report
    clock.now += STAY_S + WAIT_S
    assert gear.try_acquire("tool")


@pytest.mark.parametrize("awaits", range(4))
async def test_a_probe_that_is_cancelled_at_any_of_its_awaits_is_free_again(awaits):
    gear = due_for_a_probe()
    reached = 0

    @gear.guard("tool")
    async def tool():
        nonlocal reached
        for _ in range(3):
            await asyncio.sleep(0)
            reached += 1

    task = asyncio.ensure_future(tool())
    for _ in range(awaits):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reached < 3
    assert probes_out(gear) == 0
    await tool()
    assert breaker_of(gear).state == "closed"


async def test_a_call_that_is_cancelled_while_it_asks_the_fleet_for_a_probe_gives_everything_back(monkeypatch):
    gear = Switchgear("127.0.0.1:1", probe_wait=60, local_policies=BreakerPolicy(consecutive_failures=1))
    gear._runtime.started = True
    gear._emitter.wake = lambda urgent: None
    breaker = gear._decision.local.get("tool").breaker
    breaker.transition_to("open", time.monotonic(), actor="test", open_for_s=1e-9)
    gear._follower.table.apply(b"tool", OPEN_UNTIL_LONG_AGO)
    monkeypatch.setattr(type(gear._decision.fleet), "reachable", lambda *_: True)
    task = asyncio.ensure_future(gear.acall("tool", asyncio.sleep, 0))
    await asyncio.sleep(0.05)
    assert (len(breaker.leases), len(gear._decision.fleet._waiting)) == (1, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(breaker.leases), len(gear._decision.fleet._waiting)) == (0, 0)
    gear._emitter.closed = True


@pytest.mark.slow
async def test_tasks_that_are_cancelled_at_random_neither_leak_nor_lose_a_call():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=0.001))
    made = ended = 0

    @gear.guard("tool")
    async def tool(number):
        nonlocal made, ended
        made += 1
        try:
            await asyncio.sleep(0.001 * (number % 3))
            if number % 4 == 0:
                raise DownError
        finally:
            ended += 1

    async def caller(number):
        with contextlib.suppress(CircuitOpenError, DownError):
            await tool(number)

    for turn in range(20):
        tasks = [asyncio.ensure_future(caller(number + turn)) for number in range(50)]
        await asyncio.sleep(0.001 * (turn % 3))
        for task in tasks[turn % 2 :: 2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert made == ended
        assert probes_out(gear) == 0
    assert made > 100


def test_threads_that_fail_and_recover_together_leave_no_probe_behind():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=0.001))
    broken = threading.Event()
    counts = {"made": 0, "answered": 0, "failed": 0, "refused": 0}
    lock = threading.Lock()

    @gear.guard("tool")
    def tool():
        with lock:
            counts["made"] += 1
        if broken.is_set():
            raise DownError

    def work():
        for _ in range(1_500):
            try:
                tool()
                how = "answered"
            except CircuitOpenError:
                how = "refused"
            except DownError:
                how = "failed"
            with lock:
                counts[how] += 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.003)
        broken.clear() if broken.is_set() else broken.set()
    assert counts["made"] == counts["answered"] + counts["failed"]
    assert sum(counts.values()) - counts["made"] == 8 * 1_500
    assert probes_out(gear) == 0
    broken.clear()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(CircuitOpenError):
            tool()
            break
        time.sleep(0.002)
    assert breaker_of(gear).state == "closed"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_neither_waits_for_its_parents_locks_nor_misses_its_parents_probe():
    code = """
import os, sys, threading
from switchgear import BreakerPolicy, Switchgear
gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.01))
guarded = gear.guard("tool")(lambda work=None: work and work())
gear.try_acquire("tool").failure(OSError())
threading.Event().wait(0.02)
probe = gear.try_acquire("tool")
assert probe.probe and not gear.try_acquire("tool")
held = gear._decision.local.circuits["tool"].lock
held.acquire()
child = os.fork()
if child == 0:
    guarded()  # a probe of its own, past a lock that is never released here
    os._exit(0 if gear.status().local == {} else 1)
held.release()
_, status = os.waitpid(child, 0)
assert not gear.try_acquire("tool")  # the parent's probe is still out, and its alone
probe.success()
assert gear.status().local == {}
def fork_within():
    child = os.fork()
    if child == 0:
        return "child"
    os.waitpid(child, 0)
    return "parent"
if guarded(fork_within) == "child":
    os._exit(0 if guarded(lambda: "fine") == "fine" else 1)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 0, ended.stderr
