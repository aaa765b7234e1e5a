"""What every follower has: the table of circuits, the wait until it is loaded, and its status. Kafka and HTTP each have one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

from switchgear.follower.status import STALE_AFTER_S, BrokerTime, FollowerStatus
from switchgear.follower.table import CircuitTable
from switchgear.follower.view import CircuitView
from switchgear.runtime.background_thread import Background, NotStartedError
from switchgear.runtime.backoff import Backoff
from switchgear.runtime.fork import call_in_child

_LOOK_S: Final = 0.005
_LONGEST_LOOK_S: Final = 0.05
"""For coroutines, because a thousand of them may wait at once."""


class Follower(ABC):
    """Keeps the table of circuits current in the background.

    Attributes:
        table: The circuits.
        loaded: Whether all circuits were read once.
        broker_time: The broker's clock.
        listeners: Called with every changed view, in the background thread.
    """

    stale_after_s: ClassVar[float] = STALE_AFTER_S
    """A state that was not confirmed for so long may be outdated."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._background.add("follower", self._run)
        call_in_child(self._reset_in_child)
        self.table = CircuitTable()
        self.broker_time = BrokerTime()
        self.loaded = False
        self.tenant = ""
        """Whose circuits these are, besides those that all tenants share. Empty: everybody's."""
        self._read_here = False
        """Whether this process loaded the circuits. A forked child has those of its parent, which may be old."""
        self.listeners: list[Callable[[CircuitView], None]] = []
        self.expired: Callable[[], bool] | None = None
        """Whether the state may have become stale while this process was frozen. Each call asks it, unless it is None."""
        self._lag = 0
        self._last_error: str | None = None

    @abstractmethod
    async def _run(self) -> None:
        """Follow until cancelled."""

    @abstractmethod
    def _reset_in_child(self) -> None:
        """Forget the parent's connection in a forked child. The table stays as it was at the fork."""

    @abstractmethod
    def age_s(self) -> float | None:
        """Return the seconds since the state was last confirmed, or None before the first time."""

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether there is a connection."""

    def start(self) -> None:
        """Start the background thread, and return at once."""
        self._background.loop()

    def wait_loaded(self, timeout: float) -> bool:
        """Block until this process has loaded the circuits, at most ``timeout`` seconds. Don't call it in an event loop."""
        deadline = time.monotonic() + timeout
        while self._must_wait(deadline):
            time.sleep(_LOOK_S)
        return self.loaded and self._read_here

    async def until_loaded(self, timeout: float) -> bool:  # noqa: ASYNC109 - the same signature as wait_loaded
        """Do the same as :meth:`wait_loaded`, without blocking the event loop."""
        deadline, looks = time.monotonic() + timeout, Backoff(_LOOK_S, _LONGEST_LOOK_S)
        while self._must_wait(deadline):  # noqa: ASYNC110 - another thread reads them
            await asyncio.sleep(looks.next_s())
        return self.loaded and self._read_here

    def close(self, timeout: float = 5.0) -> bool:
        """End the background thread, which may be shared. Return whether it ended in time."""
        return self._background.close(timeout)

    def status(self) -> FollowerStatus:
        """Return the status as of now."""
        age_s = self.age_s()
        return FollowerStatus(
            loaded=self.loaded,
            connected=self.connected,
            circuits=len(self.table.views),
            lag=self._lag if self.loaded else None,
            age_s=age_s,
            malformed=self.table.malformed,
            last_error=self._last_error,
            stale=age_s is None or age_s >= self.stale_after_s,
        )

    def _must_wait(self, deadline: float) -> bool:
        if self._background.closed or (self.loaded and self._read_here) or time.monotonic() >= deadline:
            return False
        with contextlib.suppress(NotStartedError):  # there may be a thread before the time is over
            self.start()
        return True
