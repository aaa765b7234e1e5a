"""With every option and every end of a call, the permit comes back and the session counts the call once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear import BreakerPolicy, CachePolicy, CallTimeoutError, CircuitOpenError, Switchgear
from switchgear.testing import FakeClock
from switchgear.transport import Wire
from tests.support.limits import HAPPEN_S

pytestmark = pytest.mark.slow

WAIT_S = 10.0


class Clocked:
    """A transport that is only a clock: the client is a local one otherwise."""

    def __init__(self):
        self.clock = FakeClock()

    def connect(self, _gear, *, service, buffer_size):
        return Wire(None, None, self.clock.monotonic, self.clock.wall)


class DownError(Exception):
    """The tool is broken."""


def make():
    wire = Clocked()
    policy = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=WAIT_S)
    return Switchgear(wire, local_policies=policy), wire.clock


def fail(*_args):
    raise RuntimeError("an option of the user's own")


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "usage": st.sampled_from([len, fail, lambda _result: 3]),
        "classify": st.sampled_from([fail, lambda _error: None, lambda _error: "server"]),
        "classify_result": st.sampled_from([fail, lambda _result: None, lambda _result: "server"]),
        "parameters": st.sampled_from([fail, lambda *_args: 1]),
        "on_duplicate": st.sampled_from([fail, "refuse"]),
        "fallback": st.sampled_from(["other", "nobody", lambda: "function"]),
        "adapt": st.sampled_from([fail, lambda: ((), {})]),
    },
)
RESULTS_ONLY = st.fixed_dictionaries(
    {}, optional={"cache": st.just(CachePolicy(ttl_s=0, stale_for_s=600)), "single_flight": st.booleans()}
)
ENDINGS = ("returns", "raises", "hangs", "is cancelled")


async def a_stream():
    yield "function"


async def behave(ending):
    if ending == "raises":
        raise DownError
    if ending in {"hangs", "is cancelled"}:
        await asyncio.sleep(60)
    return "xyz"


def tool_of(gear, kind, ending, options):
    """A guarded coroutine function that makes one call of ``kind`` to its ``ending``."""
    if kind == "stream":
        if callable(options.get("fallback")):
            options = {**options, "fallback": a_stream}

        @gear.guard("tool", **options)
        async def stream():
            yield "x"
            yield await behave(ending)

        async def read():
            return [item async for item in stream()]

        return read

    @gear.guard("tool", **options)
    async def call():
        return await behave(ending)

    return call


async def once(gear, kind, ending, options):
    limits = {"timeout": 0.005} if ending == "hangs" else {}
    tool = tool_of(gear, kind, ending, {**options, **limits})
    task = asyncio.ensure_future(tool())
    if ending == "is cancelled":
        await asyncio.sleep(0.002)
        task.cancel()
    with contextlib.suppress(DownError, CircuitOpenError, CallTimeoutError, asyncio.CancelledError):
        await task


def probes_out(decision):
    return sum(len(circuit.breaker.leases) for circuit in decision.local.all_now())


@pytest.mark.slow
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["call", "stream"]), st.sampled_from(ENDINGS), OPTIONS, RESULTS_ONLY, st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_no_option_and_no_ending_leaks_a_permit(calls):
    async def scene():
        gear, clock = make()
        gear.guard("other")(lambda: "other")
        session = gear.session("s-1")
        for kind, ending, options, results_only, in_session in calls:
            clock.advance(WAIT_S + 1)  # an open circuit may probe now
            given_options = {**options, **(results_only if kind == "call" else {})}
            with session if in_session else contextlib.nullcontext():
                await once(gear, kind, ending, given_options)
            for decision in (gear._decision, session.decision):
                assert probes_out(decision) == 0, (kind, ending, options)
        status = session.status()
        assert 0 <= status.failures <= status.calls <= 2 * len(calls)

    asyncio.run(scene())


def test_calls_of_threads_at_once_with_a_time_limit_are_each_reported_once():
    gear = Switchgear.local(local_policies=BreakerPolicy(failure_count=1_000_000, sliding_window_size=600))
    go_on = threading.Event()
    session = gear.session("s-1")
    quick = gear.guard("quick", timeout=30)(lambda: 1)
    slow = gear.guard("slow", timeout=0.1)(lambda: go_on.wait(HAPPEN_S))

    def work():
        with session:
            for _ in range(20):
                quick()
            for _ in range(3):
                with contextlib.suppress(CallTimeoutError):
                    slow()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    go_on.set()
    status = session.status()
    assert (status.calls, status.failures) == (8 * 23, 8 * 3)


def test_a_forked_child_has_its_own_locks_threads_and_budget():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1))
    go_on = threading.Event()
    timed = gear.with_options(timeout=5)
    with contextlib.suppress(CallTimeoutError):
        gear.with_options(timeout=0.05).call("hung", go_on.wait, 30)
    session = gear.session("s-1", max_calls=3)
    with session:
        gear.try_acquire("a").success()
        locks = [session.owner.session_lock, gear._runtime.threads._changed]
        for lock in locks:
            lock.acquire()  # as another thread may, at the moment of the fork
        child = os.fork()
        if not child:
            code = 1
            try:
                assert timed.call("t", lambda: "made") == "made"
                assert gear._runtime.threads.busy == 0
                assert sum(bool(gear.try_acquire("b")) for _ in range(5)) == 1
                code = 0
            finally:
                os._exit(code)
        for lock in locks:
            lock.release()
    _, status = os.waitpid(child, 0)
    go_on.set()
    assert os.waitstatus_to_exitcode(status) == 0
    assert session.status().calls == 1


def test_a_client_serves_several_event_loops_at_once():
    gear = Switchgear.local()

    @gear.guard("t", timeout=30, single_flight=True)
    async def fetch(number):
        await asyncio.sleep(0.01)
        return number

    results = []

    async def scene():
        return await asyncio.gather(*(fetch(number % 3) for number in range(30)))

    threads = [threading.Thread(target=lambda: results.append(asyncio.run(scene()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HAPPEN_S)
    assert results == [[number % 3 for number in range(30)]] * 4
