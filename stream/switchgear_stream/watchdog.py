"""Watchdog: how a worker ends that must not go on, and how it notices that it was paused for too long."""

from __future__ import annotations

import asyncio
import time
from typing import Never

import structlog

log = structlog.get_logger()
TICK_S = 0.25
BUSY_SHARE = 0.1


class Watchdog:
    """One per process. Faust goes on after a failed handler; here a failure is final and the process ends.

    Args:
        session_s: the group's session timeout: after a pause that long the circuits have another owner.
    """

    def __init__(self, session_s: float) -> None:
        self.session_s = session_s
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tick()

    async def run(self) -> None:
        """Tick for ever; a gap between two ticks is time in which this process didn't run."""
        while True:
            self.check_awake()
            self._tick()
            await asyncio.sleep(TICK_S)

    def _tick(self) -> None:
        self._ticked, self._worked = time.monotonic(), time.process_time()

    def check_awake(self) -> None:
        """End the process where it was paused past its session: others own its circuits by now.

        A busy loop (a large recovery) is no pause: it uses the processor, and Faust's heartbeats come from a thread of their own.
        """
        paused = time.monotonic() - self._ticked
        if paused > self.session_s and time.process_time() - self._worked < BUSY_SHARE * paused:
            self.report(
                f"This worker did not run for {paused:.1f} s, longer than its session of {self.session_s:g} s: "
                "its circuits have another owner. Start it again."
            )

    def report(self, message: str, error: BaseException | None = None) -> None:
        """Note the first failure; the main task ends the process."""
        if not self.failed.done():
            log.critical("worker_failed", reason=message, exc_info=error)
            self.failed.set_result(message)

    async def die(self, message: str, error: BaseException | None = None) -> Never:
        """Report and never return: the caller's batch must not be acknowledged."""
        self.report(message, error)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")
