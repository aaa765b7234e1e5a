"""Our breaker beside those of others: a closed call, a refused call, and what they let through when the wait ends.

    python -m tests.bench.breaker_peers

Every breaker opens after five failures in a row and guards a function that does nothing. Costs are CPU time, the best of five
rounds, without that of the bare function (a coroutine's for those that guard coroutines); a refusal is taken as the breaker gives
it: an exception, or a value where there is one. For the last column fifty callers ask at the same moment after the wait is over,
while the guarded function takes a tenth of a second: each that gets in reaches a tool whose health is not known yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from switchgear import Switchgear
from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind
from switchgear_schemas.policy import BreakerPolicy
from tests.bench import peers
from tests.bench.peers import Guard

CALLS = 5_000
ROUNDS = 5
WAIT_S = 0.5
CALLERS = 50


class DownError(Exception):
    """What the guarded tool raises while it is down."""


def switchgear_core() -> Guard:
    """The pure breaker alone, without a lock: what its owner adds around it is another line."""
    breaker = Breaker("tool", BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=WAIT_S), 0.0)
    ok, bad = Result(), Result(ResultKind.FAILURE)

    def guard(function: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            permit = breaker.try_acquire(time.monotonic())
            if not isinstance(permit, BreakerPermit):
                return permit
            try:
                answer = function()
            except Exception:
                breaker.record(time.monotonic(), bad, permit)
                raise
            breaker.record(time.monotonic(), ok, permit)
            return answer

        return call

    return guard


def switchgear_guard() -> Guard:
    """The SDK's guard, with its locks, clocks and outcome classes, without Kafka."""
    policy = BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=WAIT_S)
    return Switchgear.local(local_policies=policy).guard("tool")


def switchgear_value() -> Guard:
    """The SDK's ``try_acquire``: a refusal is a value."""
    policy = BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=WAIT_S)
    gear = Switchgear.local(local_policies=policy)

    def guard(function: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            permit = gear.try_acquire("tool")
            if not permit:
                return permit
            try:
                answer = function()
            except Exception as error:
                permit.failure(error)
                raise
            permit.success()
            return answer

        return call

    return guard


CONTENDERS: dict[str, tuple[Callable[[], Guard], bool, str | None]] = {
    "Switchgear: the pure core": (switchgear_core, False, None),
    "Switchgear: try_acquire": (switchgear_value, False, None),
    "Switchgear: guard": (switchgear_guard, False, None),
    "Switchgear: guard, async": (switchgear_guard, True, None),
    "circuitbreaker": (lambda: peers.circuitbreaker(WAIT_S), False, "circuitbreaker"),
    "purgatory": (lambda: peers.purgatory(WAIT_S), False, "purgatory"),
    "pybreaker": (lambda: peers.pybreaker(WAIT_S), False, "pybreaker"),
    "interlock": (lambda: peers.interlock(WAIT_S), False, "interlock-cb"),
    "pyresilience": (lambda: peers.pyresilience(WAIT_S), False, "pyresilience"),
    "aiobreaker": (lambda: peers.aiobreaker(WAIT_S), True, "aiobreaker"),
    "hyx": (lambda: peers.hyx(WAIT_S), True, "hyx"),
}
"""Name to how its guard is made, whether it guards coroutines, and its distribution."""


def nothing() -> None:
    """What is guarded."""


async def anothing() -> None:
    """What is guarded by those that guard coroutines."""


def down() -> None:
    raise DownError


async def adown() -> None:
    raise DownError


def opened(guard: Guard, asynchronous: bool) -> None:
    """Five failures."""
    failing = guard(adown if asynchronous else down)
    for _ in range(5):
        try:
            asyncio.run(failing()) if asynchronous else failing()
        except Exception:  # noqa: BLE001 - the failure itself, or the breaker's word that it opened
            continue


def round_ns(call: Callable[[], Any], asynchronous: bool, calls: int) -> float:
    """CPU nanoseconds of one call, whatever it raises."""

    def plain() -> float:
        began = time.process_time()
        for _ in range(calls):
            try:  # noqa: SIM105 - suppress() would be measured too
                call()
            except Exception:  # noqa: BLE001 - a refusal
                pass
        return time.process_time() - began

    async def awaited() -> float:
        began = time.process_time()
        for _ in range(calls):
            try:  # noqa: SIM105 - suppress() would be measured too
                await call()
            except Exception:  # noqa: BLE001 - a refusal
                pass
        return time.process_time() - began

    return (asyncio.run(awaited()) if asynchronous else plain()) / calls * 1e9


def closed_ns(guard: Guard, asynchronous: bool) -> float:
    """The best of some rounds, with the function itself."""
    call = guard(anothing if asynchronous else nothing)
    return min(round_ns(call, asynchronous, CALLS) for _ in range(ROUNDS))


def refused_ns(guard: Guard, asynchronous: bool) -> float:
    """Cost of a refusal; measured within the wait, so that none is a probe.

    Raises:
        RuntimeError: a call went through the open circuit.
    """
    entered: list[int] = []

    def noted() -> None:
        entered.append(1)

    async def anoted() -> None:
        entered.append(1)

    opened(guard, asynchronous)
    began = time.monotonic()
    call = guard(anoted if asynchronous else noted)
    best = float("inf")
    while time.monotonic() - began < WAIT_S * 0.8:
        best = min(best, round_ns(call, asynchronous, CALLS // 10))
    if entered:
        raise RuntimeError("a call went through an open circuit")
    return best


def let_through(guard: Guard, asynchronous: bool) -> int:
    """How many of fifty callers that ask at once get in after the wait, before the first of them is back."""
    opened(guard, asynchronous)
    time.sleep(WAIT_S * 1.2)
    entered: list[int] = []
    back = threading.Event()
    if asynchronous:

        async def slow() -> None:
            if not back.is_set():
                entered.append(1)
            await asyncio.sleep(0.1)
            back.set()

        async def all_at_once() -> None:
            guarded: Callable[[], Awaitable[None]] = guard(slow)
            await asyncio.gather(*(guarded() for _ in range(CALLERS)), return_exceptions=True)

        asyncio.run(all_at_once())
        return len(entered)

    gate = threading.Barrier(CALLERS)

    def slow_plain() -> None:
        if not back.is_set():
            entered.append(1)
        time.sleep(0.1)
        back.set()

    guarded_plain = guard(slow_plain)

    def caller() -> None:
        gate.wait(10)
        with contextlib.suppress(Exception):  # a refusal
            guarded_plain()

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return len(entered)


def main() -> int:
    """Print the table; exit code 1 where ours lets more than one through, or a peer is not installed."""
    bare = {kind: closed_ns(lambda function: function, kind) for kind in (False, True)}
    print("| breaker | kind | closed call, ns | refused call, ns | let through of 50 |")
    print("|---|---|---|---|---|")
    wrong = False
    for name, (make, asynchronous, distribution) in CONTENDERS.items():
        try:
            version = "" if distribution is None else f" {importlib.metadata.version(distribution)}"
        except importlib.metadata.PackageNotFoundError:
            print(f"| {name} | not installed: pip install {distribution} | | | |")
            wrong = True
            continue
        closed = closed_ns(make(), asynchronous) - bare[asynchronous]
        refused = refused_ns(make(), asynchronous)
        through = let_through(make(), asynchronous)
        kind = "async" if asynchronous else "sync"
        print(f"| {name}{version} | {kind} | {closed:,.0f} | {refused:,.0f} | {through} |", flush=True)
        wrong = wrong or (distribution is None and through != 1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
