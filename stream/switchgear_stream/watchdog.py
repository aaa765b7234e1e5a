"""The end of a worker that must not go on: after a failure, or after a pause longer than its session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Never

import structlog

log = structlog.get_logger()
TICK_S: Final = 0.25
BUSY_SHARE: Final = 0.1
"""Share of a pause in processor time above which the process was busy, not paused."""


class Watchdog:
    """Ends the process after the first failure. Faust itself goes on after a failed handler. Make one per process.

    Args:
        session_s: The group's session timeout. After a pause that long, the circuits have another owner.
        clock: Monotonic seconds.
        processor_time: Seconds of processor time that this process has used.
    """

    def __init__(
        self,
        session_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.process_time,
    ) -> None:
        self.session_s = session_s
        self._clock = clock
        self._processor_time = processor_time
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tick()

    async def run(self) -> None:
        """Tick until cancelled. A gap between two ticks is time in which this process did not run."""
        while True:
            self.check_awake()
            self._tick()
            await asyncio.sleep(TICK_S)

    def _tick(self) -> None:
        self._ticked, self._worked = self._clock(), self._processor_time()

    def check_awake(self) -> None:
        """Report a failure if the process was paused longer than its session: other workers own its circuits by now.

        A busy event loop (a large recovery) isn't a pause: it uses the processor, and Faust sends heartbeats from another thread.
        """
        paused = self._clock() - self._ticked
        if paused > self.session_s and self._processor_time() - self._worked < BUSY_SHARE * paused:
            self.report(
                f"This worker did not run for {paused:.1f} s, longer than its session of {self.session_s:g} s: "
                "its circuits have another owner. Start it again."
            )

    def report(self, message: str, error: BaseException | None = None) -> None:
        """Note the first failure. The main task then ends the process."""
        if not self.failed.done():
            log.critical("worker_failed", reason=message, exc_info=error)
            self.failed.set_result(message)

    async def die(self, message: str, error: BaseException | None = None) -> Never:
        """Report a failure and never return, so that the caller's batch is not acknowledged."""
        self.report(message, error)
        await asyncio.Event().wait()
        raise AssertionError("this event is never set")
