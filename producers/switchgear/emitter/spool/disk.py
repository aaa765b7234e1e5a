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

from switchgear.runtime.background_thread import at_shutdown

T = TypeVar("T")

_STOP: Final = None


class Disk:
    """Runs functions one after the other. Started by the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()  # whoever finishes may come while the loop starts the thread, or does its work
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._finished = False
        self._began: float | None = None

    @property
    def waiting_s(self) -> float:
        """How long the present function has been running."""
        began = self._began
        return 0.0 if began is None else max(0.0, time.monotonic() - began)

    async def run(self, work: Callable[[], T], *, at_any_rate: bool = False) -> T:
        """The result of ``work``, or its exception. Cancelled, the caller goes on and ``work`` runs to its end.

        Args:
            work: What to run.
            at_any_rate: Where no thread is to be had the caller's does it. At the end of the interpreter it does so anyway.

        Raises:
            RuntimeError: there is no thread to be had, and ``work`` was not begun; the next call tries again.
        """
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

        try:
            self._put(job)
        except RuntimeError as error:
            if not (at_any_rate or at_shutdown(error)):
                raise
            with self._lock:  # so that the last function waits for it
                if not self._finished:
                    return work()
        return await answer

    def finish(self, work: Callable[[], object], timeout: float) -> bool:
        """Run a last function, whose errors are its own to tell, and end the thread; False when it took too long."""
        if not self._lock.acquire(timeout=timeout):
            return False
        try:
            self._finished = True
            thread = self._thread
            if thread is None:
                work()
                return True
        finally:
            self._lock.release()
        self._jobs.put(work)
        self._jobs.put(_STOP)
        thread.join(timeout)
        return not thread.is_alive()

    def forked(self) -> None:
        """In a child: the thread is the parent's."""
        self._lock = threading.RLock()
        self._jobs = queue.SimpleQueue()
        self._thread = None
        self._finished = False
        self._began = None

    def _put(self, job: Callable[[], object]) -> None:
        with self._lock:
            if self._thread is None and not self._finished:  # what comes after the last function is not run
                thread = threading.Thread(target=self._work, args=(self._jobs,), name=f"{self._name}-disk", daemon=True)
                thread.start()
                self._thread = thread  # not before: one that did not start would never be started again
        self._jobs.put(job)

    def _work(self, jobs: queue.SimpleQueue[Callable[[], object] | None]) -> None:
        while (job := jobs.get()) is not _STOP:
            self._began = time.monotonic()
            try:
                job()
            finally:
                self._began = None
