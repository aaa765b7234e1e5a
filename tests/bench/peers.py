"""The peers with their configuration, and the probes that a breaker lets through.

Every breaker opens after five failures in a row, and one success after the wait closes it. Each maker takes the wait in seconds and
returns a guard: a function that puts other functions behind one new breaker. Peers are imported by their makers, because they may be absent.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

FAILURES = 5
WAIT_S = 0.5
CALLERS = 50
Guard = Callable[[Callable[[], Any]], Callable[[], Any]]
"""Puts a function behind one breaker. All functions behind the same guard share it."""
Maker = Callable[[float], Guard]


def circuitbreaker(wait_s: float) -> Guard:
    import circuitbreaker as peer  # noqa: PLC0415 - a peer may be absent

    return peer.CircuitBreaker(failure_threshold=FAILURES, recovery_timeout=wait_s, name="tool").decorate


def pybreaker(wait_s: float) -> Guard:
    import pybreaker as peer  # noqa: PLC0415 - a peer may be absent

    return peer.CircuitBreaker(fail_max=FAILURES, reset_timeout=wait_s)


def purgatory(wait_s: float) -> Guard:
    import purgatory as peer  # noqa: PLC0415 - a peer may be absent

    return peer.SyncCircuitBreakerFactory(default_threshold=FAILURES, default_ttl=wait_s)("tool")


def purgatory_async(wait_s: float) -> Guard:
    import purgatory as peer  # noqa: PLC0415 - a peer may be absent

    return peer.AsyncCircuitBreakerFactory(default_threshold=FAILURES, default_ttl=wait_s)("tool")


def _interlock(wait_s: float) -> Any:
    import interlock as peer  # noqa: PLC0415 - a peer may be absent

    config = peer.Config(
        failure_rate_threshold=0.5,
        minimum_number_of_calls=FAILURES,
        window_size=FAILURES,
        wait_duration_in_open=wait_s,
        permitted_calls_in_half_open=1,
    )
    return peer.CircuitBreaker(name="tool", config=config)


def interlock(wait_s: float) -> Guard:
    breaker = _interlock(wait_s)
    return lambda function: lambda: breaker.call_sync(function)


def interlock_async(wait_s: float) -> Guard:
    breaker = _interlock(wait_s)
    return lambda function: lambda: breaker.call(function)


def pyresilience(wait_s: float) -> Guard:
    import pyresilience as peer  # noqa: PLC0415 - a peer may be absent

    # One decorated function, so that every guarded function shares its breaker.
    policy = peer.CircuitBreakerConfig(failure_threshold=FAILURES, recovery_timeout=wait_s, success_threshold=1)
    shared = peer.resilient(lambda function: function(), circuit_breaker=policy)
    return lambda function: lambda: shared(function)


def pyresilience_async(wait_s: float) -> Guard:
    import pyresilience as peer  # noqa: PLC0415 - a peer may be absent

    policy = peer.CircuitBreakerConfig(failure_threshold=FAILURES, recovery_timeout=wait_s, success_threshold=1)

    async def run(function: Callable[[], Any]) -> Any:
        return await function()

    shared = peer.resilient(run, circuit_breaker=policy)
    return lambda function: lambda: shared(function)


def aiobreaker(wait_s: float) -> Guard:
    import aiobreaker as peer  # noqa: PLC0415 - a peer may be absent

    return peer.CircuitBreaker(fail_max=FAILURES, timeout_duration=timedelta(seconds=wait_s))


def hyx(wait_s: float) -> Guard:
    from hyx.circuitbreaker import consecutive_breaker  # noqa: PLC0415 - a peer may be absent

    return consecutive_breaker(failure_threshold=FAILURES, recovery_time_secs=wait_s, recovery_threshold=1)


@dataclass(frozen=True)
class Peer:
    """A distribution, and what it offers for functions and for coroutine functions."""

    distribution: str
    sync: Maker | None
    coroutine: Maker | None

    @property
    def version(self) -> str | None:
        """The installed version; None if there is none."""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None


PEERS: dict[str, Peer] = {
    "circuitbreaker": Peer("circuitbreaker", circuitbreaker, circuitbreaker),
    "purgatory": Peer("purgatory", purgatory, purgatory_async),
    "pybreaker": Peer("pybreaker", pybreaker, None),
    "interlock": Peer("interlock-cb", interlock, interlock_async),
    "pyresilience": Peer("pyresilience", pyresilience, pyresilience_async),
    "aiobreaker": Peer("aiobreaker", aiobreaker, aiobreaker),
    "hyx": Peer("hyx", None, hyx),
}
"""pybreaker guards only coroutines of Tornado. hyx guards only coroutine functions."""


class DownError(Exception):
    """The error of a tool that is down."""


def nothing() -> None:
    """The guarded function."""


async def anothing() -> None:
    """The guarded coroutine function."""


def down() -> None:
    raise DownError


async def adown() -> None:
    raise DownError


def opened(guard: Guard, asynchronous: bool) -> None:
    """Open the circuit with five failures."""
    failing = guard(adown if asynchronous else down)
    for _ in range(FAILURES):
        try:
            asyncio.run(failing()) if asynchronous else failing()
        except Exception:  # noqa: BLE001 - the failure itself, or the refusal of the open breaker
            continue


def let_through(guard: Guard, asynchronous: bool) -> int:
    """Return how many of fifty callers get in if all ask at once after the wait, before the first call ends.

    Args:
        guard: Made with a wait of :data:`WAIT_S`.
        asynchronous: Whether it guards coroutines.
    """
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
