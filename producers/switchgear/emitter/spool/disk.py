"""Disk: one thread for what may block on a disk, so that a disk that hangs holds up nothing but the spool.

A daemon thread of its own and no executor: those refuse work as soon as the interpreter begins to end, when the last events
have to be written.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_STOP: Final = None


class Disk:
    """Runs functions one after the other. Started by the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._began: float | None = None

    @property
    def waiting_s(self) -> float:
        """How long the present function has been running."""
        began = self._began
        return 0.0 if began is None else max(0.0, time.monotonic() - began)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work``, or its exception. Cancelled, the caller goes on and ``work`` runs to its end."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def tell(setter: Callable[[Any], None], value: object) -> None:
            def in_loop() -> None:
                if not answer.done():
                    setter(value)

            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(in_loop)

        def job() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                tell(answer.set_exception, error)
            else:
                tell(answer.set_result, result)

        self._put(job)
        return await answer

    def finish(self, work: Callable[[], object], timeout: float) -> bool:
        """Run a last function, whose errors are its own to tell, and end the thread; False when it took too long."""
        if self._thread is None:
            work()
            return True
        self._put(work)
        self._jobs.put(_STOP)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def forked(self) -> None:
        """In a child: the thread is the parent's."""
        self._jobs = queue.SimpleQueue()
        self._thread = None
        self._began = None

    def _put(self, job: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, args=(self._jobs,), name=f"{self._name}-disk", daemon=True
            )
            self._thread.start()
        self._jobs.put(job)

    def _work(self, jobs: queue.SimpleQueue[Callable[[], object] | None]) -> None:
        while (job := jobs.get()) is not _STOP:
            self._began = time.monotonic()
            try:
                job()
            finally:
                self._began = None
