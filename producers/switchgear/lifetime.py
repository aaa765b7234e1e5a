"""Lifetime: from a client's first call to its end."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.background import Background
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower
    from switchgear.guard.gate import Gate
    from switchgear.guard.runtime import Runtime

log: Final = logging.getLogger("switchgear.client")


class Lifetime:
    """The half of :class:`~switchgear.Switchgear` that is about the client itself."""

    _emitter: Emitter | None
    _follower: CircuitFollower | None
    _background: Background | None
    _gate: Gate
    _runtime: Runtime
    _started: bool

    def start(self, wait: float = 0.0) -> bool:
        """Start now instead of at the first call, and wait up to ``wait`` seconds for the fleet's circuits.

        Returns:
            Whether the circuits are loaded; always True without Kafka. At once after :meth:`close`, and in a hook that runs in
            the background thread.
        """
        self._start()
        follower, background = self._follower, self._background
        if follower is None:
            return True
        if background is not None and (background.here or background.closed):
            return follower.loaded
        return follower.wait_loaded(wait)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until every event is acknowledged; False when ``timeout`` seconds did not suffice. Not for event loops.

        In a hook that runs in the background thread it does not wait: that thread is the one that sends.
        """
        if self._emitter is None:
            return True
        if self._gate.refusals is not None:
            self._gate.refusals.sweep(everything=True)
        return self._emitter.flush(0.0 if self._in_background else timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Flush and end the background thread. Calls go on to be guarded, unreported. Closing twice is fine.

        In a hook that runs in the background thread it returns at once, and another thread does it: none can wait for itself.

        Returns:
            True when every event was acknowledged.
        """
        if self._emitter is None:
            return True
        if self._gate.refusals is not None:
            self._gate.refusals.sweep(everything=True)
        if self._in_background:
            threading.Thread(target=self._emitter.close, args=(timeout,), name="switchgear-close").start()
            return False
        return self._emitter.close(timeout)

    async def aclose(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same signature as close
        """:meth:`close` for event loops."""
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
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _in_background(self) -> bool:
        return self._background is not None and self._background.here

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        assert self._background is not None
        if not self._background.closed:
            try:
                self._background.loop()
            except (SwitchgearError, RuntimeError) as error:  # no thread to be had: the next event tries again
                log.warning("no events are sent for now: %s", error)

    def _forked(self) -> None:
        """In a child: it starts anew at its first call, as a process of its own."""
        self._started = False
        self._runtime.forked()
