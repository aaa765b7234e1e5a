"""The start, the flush and the end of a client, and its work once a second."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.base import Follower
    from switchgear.guard.decision import CircuitDecision
    from switchgear.guard.fleet_circuits import FleetCircuits
    from switchgear.guard.fleet_state import Availability
    from switchgear.guard.runtime import Runtime
    from switchgear.runtime.background_thread import Background
    from switchgear.telemetry.hooks import HookList

log: Final = logging.getLogger("switchgear.client")
EVERY_S: Final = 1.0


class Lifetime:
    """Base of :class:`~switchgear.Switchgear` with the methods about the client itself."""

    _emitter: Emitter | None
    _follower: Follower | None
    _background: Background | None
    _decision: CircuitDecision
    _runtime: Runtime
    _availability: Availability | None
    _start_wait_s: float
    _begun: bool
    """Whether the background was started."""
    _wait_until: float | None = None
    """When the first call stops waiting for the circuits, in monotonic seconds."""

    def start(self, wait: float = 0.0) -> bool:
        """Start now instead of at the first call, and wait up to ``wait`` seconds for the fleet's circuits.

        After :meth:`close`, and in a hook that runs in the background thread, it does not wait.

        Returns:
            Whether the circuits are loaded. Always True without Kafka.
        """
        self._begin()
        follower, background = self._follower, self._background
        if follower is None:
            return True
        if background is not None and (background.here or background.closed):
            return follower.loaded
        loaded = follower.wait_loaded(wait)
        self._look()
        return loaded

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until every event is acknowledged. Not for event loops.

        In a hook that runs in the background thread it does not wait, because that thread sends the events.

        Returns:
            False if ``timeout`` seconds were not enough.
        """
        if self._emitter is None:
            return True
        if self._decision.fleet is not None:
            self._decision.fleet.refusals.sweep(everything=True)
        return self._emitter.flush(0.0 if self._in_background else timeout)

    async def aflush(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same signature as flush
        """Wait like :meth:`flush`, in an event loop."""
        import asyncio  # noqa: PLC0415 - see __init__

        return await asyncio.to_thread(self.flush, timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Flush, and end the background thread. Later calls are guarded and not reported. You may close more than once.

        In a hook that runs in the background thread it returns at once, and another thread closes the client.

        Returns:
            True if every event was acknowledged.
        """
        if self._emitter is None:
            return True
        if self._in_background:
            threading.Thread(target=self._emitter.close, args=(timeout,), name="switchgear-close").start()
            return False
        return self._emitter.close(timeout)

    async def aclose(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same signature as close
        """Close like :meth:`close`, in an event loop."""
        import asyncio  # noqa: PLC0415 - see __init__

        return await asyncio.to_thread(self.close, timeout)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self._astart()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _in_background(self) -> bool:
        return self._background is not None and self._background.here

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        self._runtime.started = not self._start_wait_s
        if self._background is not None and not self._background.closed:
            try:
                self._background.loop()
            except SwitchgearError as error:  # no thread can be started: the next event tries again
                if "at interpreter shutdown" not in str(error):  # then the main thread sends the events
                    log.warning("no events are sent for now: %s", error)

    def _start(self) -> None:
        """Start at the first call, and wait once for the fleet's circuits, at most ``start_wait_s`` seconds."""
        waiting = self._first_wait()
        if waiting is not None:
            follower, left_s = waiting
            follower.wait_loaded(left_s)
            self._waited(follower)

    async def _astart(self) -> None:
        """:meth:`_start` without blocking the event loop."""
        waiting = self._first_wait()
        if waiting is not None:
            follower, left_s = waiting
            await follower.until_loaded(left_s)
            self._waited(follower)

    def _first_wait(self) -> tuple[Follower, float] | None:
        """Begin. Return what this call waits for, and how many seconds. Return None if it must not wait."""
        if not self._runtime.started:
            self._begin()
        if self._runtime.started or self._in_background or self._follower is None:
            return None
        if self._wait_until is None:
            self._wait_until = time.monotonic() + self._start_wait_s
        return self._follower, self._wait_until - time.monotonic()

    def _waited(self, follower: Follower) -> None:
        if self._runtime.started:  # another thread was first
            return
        self._look()
        self._runtime.started = True
        if not follower.loaded:
            log.warning(
                "the fleet's circuits were not loaded within %g s; calls go on without them", self._start_wait_s
            )

    def _look(self) -> None:
        """Make calls use what was just loaded. The background does so only once a second."""
        if self._availability is not None:
            self._availability.look()

    def _reset_in_child(self) -> None:
        """Start again at the first call of a forked child."""
        self._runtime.started = self._begun = False
        self._wait_until = None


class Housekeeping:
    """Reports overdue calls, sends summed-up refusals, calls the hooks, reports dropped events, and checks the age of the fleet's state.

    Refusals that still wait at the end are sent when the emitter closes.
    """

    def __init__(
        self, fleet: FleetCircuits, availability: Availability, hooks: HookList | None, overdue: Callable[[], object]
    ) -> None:
        self._overdue = overdue
        self._refusals = fleet.refusals
        self._emitter = emitter = fleet.emitter
        self._availability = availability
        self._hooks = hooks
        self._reported_drops = 0
        emitter.before_close.append(functools.partial(self._refusals.sweep, everything=True))

    async def run(self) -> None:
        """Call :meth:`look` every second until cancelled."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        while True:
            self.look()
            await asyncio.sleep(EVERY_S)

    def look(self) -> None:
        """Do the work once."""
        self._availability.look()
        self._overdue()
        self._refusals.sweep()
        if self._hooks is None:
            return
        self._hooks.run_waiting()
        if "on_drop" in self._hooks.wants:
            dropped = self._emitter.status().dropped
            if dropped > self._reported_drops:
                self._hooks.on_drop(dropped - self._reported_drops)
            self._reported_drops = dropped  # lower again in a forked child
