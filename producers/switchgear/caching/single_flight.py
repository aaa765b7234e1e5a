"""Make identical calls that are under way at the same time once, and share the result."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from switchgear import arguments
from switchgear.runtime.fork import call_in_child

R = TypeVar("R")


class Shared(NamedTuple, Generic[R]):
    """A result. ``value`` is the very object that every caller gets. With ``leader`` this caller made the call."""

    value: R
    leader: bool


class Flight:
    """One execution of a call that several callers wait for."""

    __slots__ = ("end", "landed")

    def __init__(self) -> None:
        self.landed: Future[None] = Future()
        """Done when the execution is over."""
        self.landed.set_running_or_notify_cancel()  # a cancelled follower can't cancel what others wait for
        self.end: Shared[Any] | Exception | Literal["alone", "again"] = "again"
        """What its followers get, or what they do: each makes the call ``alone``, or one of them makes it ``again``."""


class SingleFlight:
    """Share calls among any number of threads and event loops. Keep nothing after a call: this is not a cache.

    * An exception is raised in all callers, as the same object.
    * A follower that is cancelled leaves the others waiting. If the leader is cancelled, one of the followers makes the call.
    * After ``wait_s`` one of the followers makes the call again, and the others and later callers wait for that one.

    Args:
        wait_s: The longest wait of a follower for one execution, in seconds.

    Raises:
        OptionError: ``wait_s`` isn't a number above 0.
    """

    def __init__(self, wait_s: float = 30.0) -> None:
        arguments.number("wait_s", wait_s, least=0.001, most=float("inf"))
        self._wait_s = wait_s
        self._flights: dict[Hashable, Flight] = {}
        self._reset()
        call_in_child(self._reset)

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
        """Return the result of ``fn()``, or of the identical call that another thread is making.

        Args:
            key: Equal for identical calls.
            fn: The call, without arguments.
            wait_s: For a call that may take longer than the longest wait: wait this long.
            serves: Returns whether a result can serve several callers. Without it, every result can.
        """
        longest_s = self._longest_wait_s(wait_s)
        end: Shared[R] | Literal["alone", "again"] = "again"
        while isinstance(end, str):
            flight, leads = self._board(key, alone=end == "alone")
            if leads:
                with self._leading(key, flight):
                    value = fn()
                    flight.end = _end(value, serves)
                return Shared(value, leader=True)
            with contextlib.suppress(TimeoutError):
                flight.landed.result(longest_s)
            end = self._end_of(key, flight)
        return end

    async def ado(
        self,
        key: Hashable,
        coroutine_fn: Callable[[], Awaitable[R]],
        *,
        wait_s: float | None = None,
        serves: Callable[[R], bool] | None = None,
    ) -> Shared[R]:
        """:meth:`do` for coroutine functions, without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        longest_s = self._longest_wait_s(wait_s)
        end: Shared[R] | Literal["alone", "again"] = "again"
        while isinstance(end, str):
            flight, leads = self._board(key, alone=end == "alone")
            if leads:
                with self._leading(key, flight):
                    value = await coroutine_fn()
                    flight.end = _end(value, serves)
                return Shared(value, leader=True)
            landed = asyncio.wrap_future(flight.landed)
            try:
                await asyncio.wait([landed], timeout=longest_s)
            finally:
                landed.cancel()  # what is left of a wait that ended early
            end = self._end_of(key, flight)
        return end

    def _board(self, key: Hashable, *, alone: bool) -> tuple[Flight, bool]:
        """Return the flight of ``key``, and whether the caller makes its call. Who makes it ``alone`` shares no flight."""
        mine = Flight()
        if alone:
            return mine, True
        with self._lock:
            flight = self._flights.setdefault(key, mine)
        return flight, flight is mine

    @contextlib.contextmanager
    def _leading(self, key: Hashable, flight: Flight) -> Iterator[None]:
        """Make the call of ``flight`` in this block, and set its end."""
        try:
            yield
        except Exception as error:  # a cancellation or an interruption is the leader's own
            flight.end = error
            raise
        finally:
            self._give_up(key, flight)
            flight.landed.set_result(None)

    def _longest_wait_s(self, wait_s: float | None) -> float:
        """Return how long a follower waits for a call that may take ``wait_s`` seconds."""
        return min(max(self._wait_s, wait_s or 0.0), threading.TIMEOUT_MAX)

    def _end_of(self, key: Hashable, flight: Flight) -> Shared[Any] | Literal["alone", "again"]:
        """Return the end of ``flight``, or raise its error. If it still runs, no later caller waits for it."""
        if not flight.landed.done():
            self._give_up(key, flight)
            return "again"
        if isinstance(flight.end, Exception):
            raise flight.end
        return flight.end

    def _give_up(self, key: Hashable, flight: Flight) -> None:
        """Let no later caller board ``flight``."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]

    def _reset(self) -> None:
        """In the child of a fork: the flights are those of the parent's threads."""
        self._lock = threading.Lock()
        self._flights.clear()


def _end(value: R, serves: Callable[[R], bool] | None) -> Shared[R] | Literal["alone"]:
    return Shared(value, leader=False) if serves is None or serves(value) else "alone"
