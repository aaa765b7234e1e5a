"""SingleFlight: identical calls at the same time are made once, and all get the answer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from switchgear.numeric import is_number
from switchgear.runtime.fork import ForkSafe
from switchgear_schemas.errors import SettingsError

R = TypeVar("R")


class _Leader:
    """Who makes a call: by it a call within a flight is known, and what that flight waits for."""

    __slots__ = ("loop", "waits_for")

    def __init__(self, loop: object) -> None:
        self.loop = loop
        """The event loop that its task needs; None for a thread."""
        self.waits_for: list[_Leader] = []


_aboard: Final[ContextVar[tuple[_Leader, ...]]] = ContextVar("switchgear_single_flight", default=())
"""The flights that the running code is part of: it must not wait for one of them."""


class Shared(NamedTuple, Generic[R]):
    """``value`` is the very object that every caller got; ``leader``: this caller made the call itself."""

    value: R
    leader: bool


class _Flight:
    """One execution. ``landed`` tells only that it is over; ``abandoned`` that its leader was cancelled without a result."""

    __slots__ = ("abandoned", "error", "landed", "leader", "unshared", "value")

    def __init__(self, loop: object) -> None:
        self.landed: Future[None] = Future()
        self.landed.set_running_or_notify_cancel()  # a cancelled follower can't cancel what others wait for
        self.leader = _Leader(loop)
        self.value: Any = None
        self.error: Exception | None = None
        self.abandoned = False
        self.unshared = False
        """Its result serves its leader alone: each of the others makes the call itself."""


class SingleFlight(ForkSafe):
    """For any number of threads and event loops. Nothing is kept after a flight: this is no cache.

    * An exception of the call is raised in everybody who waits, the same object, as a Future does.
    * A follower that is cancelled goes alone. A leader that is cancelled (or interrupted) hands over: one of the followers
      makes the call anew.
    * Nobody waits for ever: after ``wait_s`` one of the followers makes the call anew, and the others and later callers
      wait for that one.
    * Nobody waits for itself: a call made within the flight it would wait for is made at once, also where that one is
      two flights away, or needs the event loop that the wait would stop.

    Args:
        wait_s: Longest wait of a follower for one execution, in seconds.

    Raises:
        SettingsError: for a wait that is no positive number.
    """

    def __init__(self, wait_s: float = 30.0) -> None:
        super().__init__()
        if not is_number(wait_s) or not wait_s > 0:
            raise SettingsError(f"single flight: wait_s must be more than 0 seconds, not {wait_s!r}.")
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._flights: dict[Hashable, _Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def do(
        self,
        key: Hashable,
        fn: Callable[[], R],
        *,
        wait_s: float | None = None,
        serves: Callable[[R], bool] | None = None,
    ) -> Shared[R]:
        """The result of ``fn()``, or of the identical call that another thread or task is making.

        Args:
            key: Equal for identical calls.
            fn: The call, without arguments.
            wait_s: For a call that may take longer than the longest wait: wait so long.
            serves: Whether a result can serve several callers; without it every one can.
        """
        longest = max(self._wait_s, wait_s or 0.0)
        while True:
            flight, part = self._board(key, None, _running_loop())
            if part == "leads":
                return Shared(self._fly(key, flight, fn, serves), leader=True)
            if part == "alone":
                return Shared(fn(), leader=True)
            try:
                flight.landed.result(timeout=min(longest, threading.TIMEOUT_MAX))
            except TimeoutError:
                self._give_up(key, flight)
                continue
            finally:
                _left(flight)
            if flight.unshared:
                return Shared(fn(), leader=True)
            if not flight.abandoned:
                return _landed(flight)

    async def ado(
        self,
        key: Hashable,
        coroutine_fn: Callable[[], Awaitable[R]],
        *,
        wait_s: float | None = None,
        serves: Callable[[R], bool] | None = None,
    ) -> Shared[R]:
        """:meth:`do` for coroutine functions; does not block the event loop. Flights cross loops."""
        longest = max(self._wait_s, wait_s or 0.0)
        while True:
            flight, part = self._board(key, _running_loop(), None)
            if part == "leads":
                return Shared(await self._afly(key, flight, coroutine_fn, serves), leader=True)
            if part == "alone":
                return Shared(await coroutine_fn(), leader=True)
            try:
                over = await _over(flight, longest)
            finally:
                _left(flight)
            if not over:
                self._give_up(key, flight)
            elif flight.unshared:
                return Shared(await coroutine_fn(), leader=True)
            elif not flight.abandoned:
                return _landed(flight)

    def forked(self) -> None:
        """In a child of a fork: the flights are the parent's, nobody here will land them."""
        self._lock = threading.Lock()
        self._flights.clear()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _board(
        self, key: Hashable, loop: object, stopped: object
    ) -> tuple[_Flight, Literal["leads", "follows", "alone"]]:
        """Which flight the caller is part of, and how; ``loop`` is the one it would lead by, ``stopped`` the one its wait stops."""
        aboard = _aboard.get()
        with self._lock:
            flight = self._flights.get(key)
            if flight is None:
                flight = self._flights[key] = _Flight(loop)
                return flight, "leads"
            if _would_hang(flight.leader, aboard, stopped):
                return flight, "alone"
            for leader in aboard:
                leader.waits_for.append(flight.leader)
            return flight, "follows"

    def _fly(self, key: Hashable, flight: _Flight, fn: Callable[[], R], serves: Callable[[R], bool] | None) -> R:
        before = _aboard.get()
        _aboard.set((*before, flight.leader))
        try:
            value = flight.value = fn()
            flight.unshared = serves is not None and not serves(value)
        except BaseException as error:
            self._failed(flight, error)
            raise
        finally:
            _aboard.set(before)
            self._land(key, flight)
        return value

    async def _afly(
        self,
        key: Hashable,
        flight: _Flight,
        coroutine_fn: Callable[[], Awaitable[R]],
        serves: Callable[[R], bool] | None,
    ) -> R:
        before = _aboard.get()
        _aboard.set((*before, flight.leader))
        try:
            value = flight.value = await coroutine_fn()
            flight.unshared = serves is not None and not serves(value)
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

    def _land(self, key: Hashable, flight: _Flight) -> None:
        self._give_up(key, flight)
        flight.landed.set_result(None)

    def _give_up(self, key: Hashable, flight: _Flight) -> None:
        """Nobody boards it any more."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]


def _would_hang(leader: _Leader, aboard: tuple[_Leader, ...], stopped: object) -> bool:
    """Would a wait for ``leader`` end only after itself? It may wait in turn for a flight that the caller is part of."""
    seen: set[int] = set()
    ahead = [leader]
    while ahead:
        each = ahead.pop()
        if each in aboard or (stopped is not None and each.loop is stopped):
            return True
        if id(each) not in seen:
            seen.add(id(each))
            ahead += each.waits_for
    return False


def _left(flight: _Flight) -> None:
    """The caller waits for ``flight`` no more."""
    for leader in _aboard.get():
        leader.waits_for.remove(flight.leader)


def _running_loop() -> object:
    """The event loop that runs in this thread; None without one. No program has one that has not imported asyncio."""
    asyncio = sys.modules.get("asyncio")
    running = getattr(asyncio, "_get_running_loop", None)
    return None if running is None else running()


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
