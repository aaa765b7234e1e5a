"""SingleFlight: identical calls at the same time are made once, and all get the answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final, Generic, NamedTuple, TypeVar

from switchgear.fork_safe import ForkSafe
from switchgear_schemas.errors import SettingsError

R = TypeVar("R")
_aboard: Final[ContextVar[frozenset[tuple[int, str]]]] = ContextVar("switchgear_single_flight", default=frozenset())
"""The flights that the running code is part of: it must not wait for one of them."""


class Shared(NamedTuple, Generic[R]):
    """``value`` is the very object that every caller got; ``leader``: this caller made the call itself."""

    value: R
    leader: bool


class _Flight:
    """One execution. ``landed`` tells only that it is over; ``abandoned`` that its leader was cancelled without a result."""

    __slots__ = ("abandoned", "error", "landed", "value")

    def __init__(self) -> None:
        self.landed: Future[None] = Future()
        self.landed.set_running_or_notify_cancel()  # a cancelled follower can't cancel what others wait for
        self.value: Any = None
        self.error: Exception | None = None
        self.abandoned = False


class SingleFlight(ForkSafe):
    """For any number of threads and event loops. Nothing is kept after a flight: this is no cache.

    * An exception of the call is raised in everybody who waits, the same object, as a Future does.
    * A follower that is cancelled goes alone. A leader that is cancelled (or interrupted) hands over: one of the followers
      makes the call anew.
    * Nobody waits for ever: after ``wait_s`` a follower makes the call itself, and later callers start a new flight. A call
      made within the flight it would wait for is made at once.

    Args:
        wait_s: Longest wait of a follower, in seconds.

    Raises:
        SettingsError: for a wait that is not positive.
    """

    def __init__(self, wait_s: float = 30.0) -> None:
        super().__init__()
        if not wait_s > 0:
            raise SettingsError(f"single flight: wait_s must be more than 0 seconds, not {wait_s!r}.")
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def do(self, key: str, fn: Callable[[], R]) -> Shared[R]:
        """The result of ``fn()``, or of the identical call that another thread or task is making.

        Args:
            key: Equal for identical calls.
            fn: The call, without arguments.
        """
        if (id(self), key) in _aboard.get():
            return Shared(fn(), leader=True)
        until = time.monotonic() + self._wait_s
        while True:
            flight, leader = self._board(key)
            if leader:
                return Shared(self._fly(key, flight, fn), leader=True)
            try:
                flight.landed.result(timeout=max(0.0, until - time.monotonic()))
            except TimeoutError:
                self._give_up(key, flight)
                return Shared(fn(), leader=True)
            if not flight.abandoned:
                return _landed(flight)

    async def ado(self, key: str, coroutine_fn: Callable[[], Awaitable[R]]) -> Shared[R]:
        """:meth:`do` for coroutine functions; does not block the event loop. Flights cross loops."""
        if (id(self), key) in _aboard.get():
            return Shared(await coroutine_fn(), leader=True)
        until = time.monotonic() + self._wait_s
        while True:
            flight, leader = self._board(key)
            if leader:
                return Shared(await self._afly(key, flight, coroutine_fn), leader=True)
            if not await _over(flight, max(0.0, until - time.monotonic())):
                self._give_up(key, flight)
                return Shared(await coroutine_fn(), leader=True)
            if not flight.abandoned:
                return _landed(flight)

    def forked(self) -> None:
        """In a child of a fork: the flights are the parent's, nobody here will land them."""
        self._lock = threading.Lock()
        self._flights.clear()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _board(self, key: str) -> tuple[_Flight, bool]:
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                return flight, False
            flight = self._flights[key] = _Flight()
            return flight, True

    def _fly(self, key: str, flight: _Flight, fn: Callable[[], R]) -> R:
        before = _aboard.get()
        _aboard.set(before | {(id(self), key)})
        try:
            value = flight.value = fn()
        except BaseException as error:
            self._failed(flight, error)
            raise
        finally:
            _aboard.set(before)
            self._land(key, flight)
        return value

    async def _afly(self, key: str, flight: _Flight, coroutine_fn: Callable[[], Awaitable[R]]) -> R:
        before = _aboard.get()
        _aboard.set(before | {(id(self), key)})
        try:
            value = flight.value = await coroutine_fn()
        except BaseException as error:
            self._failed(flight, error)
            raise
        finally:
            _aboard.set(before)
            self._land(key, flight)
        return value

    @staticmethod
    def _failed(flight: _Flight, error: BaseException) -> None:
        if isinstance(error, Exception):
            flight.error = error
        else:  # cancelled, interrupted, closed: that is this caller's own end, not the call's answer
            flight.abandoned = True

    def _land(self, key: str, flight: _Flight) -> None:
        self._give_up(key, flight)
        flight.landed.set_result(None)

    def _give_up(self, key: str, flight: _Flight) -> None:
        """Nobody boards it any more."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]


def _landed(flight: _Flight) -> Shared[Any]:
    if flight.error is not None:
        raise flight.error
    return Shared(flight.value, leader=False)


async def _over(flight: _Flight, limit: float) -> bool:
    """Wait until the flight has landed; False when ``limit`` seconds did not suffice."""
    import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

    landed = asyncio.wrap_future(flight.landed)
    try:
        await asyncio.wait([landed], timeout=limit)
        return flight.landed.done()
    finally:
        landed.cancel()  # what is left of a wait that ended early
