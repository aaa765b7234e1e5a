"""How each peer is set up beside us: five failures in a row open it, one success after the wait closes it, one shared breaker.

Every maker takes the wait in seconds and returns what puts functions behind one new breaker. A peer is imported when it is
made: it may be absent.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

FAILURES = 5
Guard = Callable[[Callable[[], Any]], Callable[[], Any]]
"""Puts a function behind one breaker; every function that goes through the same guard shares it."""
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
        """The installed one; None where there is none."""
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
"""pybreaker guards coroutines of Tornado alone; hyx guards no plain functions."""
