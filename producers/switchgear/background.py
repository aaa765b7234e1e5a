"""The one background thread of a client: it runs everything that talks to Kafka in an event loop of its own.

So the SDK works the same from synchronous code, from threads and from several event loops. The thread is a daemon,
started at the first need. After ``os.fork`` the child has no such thread: its next need starts a fresh one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from switchgear_schemas.errors import SwitchgearError

log: Final = logging.getLogger("switchgear.background")
T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, None]]

_START_LIMIT_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 5.0
_every: Final[weakref.WeakSet[Background]] = weakref.WeakSet()
# A forked child must not close its parent's loop: both share one epoll descriptor. Kept, hence never collected.
_inherited: Final[list[object]] = []


class Background:
    """Owner of the thread, its loop, and the jobs that run in it for as long as the client lives."""

    def __init__(self, name: str = "switchgear") -> None:
        self._name = name
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.deaths: dict[str, str] = {}
        """Last error of every job that ended by one; each was started again."""
        self.after_fork: list[Callable[[], None]] = []
        """Called in the child of a fork."""
        self.after_death: list[Callable[[], None]] = []
        """Called when the thread ended by an error; the next :meth:`loop` starts it again."""
        _every.add(self)

    def add(self, name: str, job: Job) -> None:
        """Register a job before the thread is started. A job that fails is logged and started again."""
        self._jobs[name] = job

    @property
    def alive(self) -> bool:
        """The thread runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    @property
    def here(self) -> bool:
        """The caller runs in the thread: what waits for it would wait for itself."""
        return self._thread is threading.current_thread()

    @property
    def closed(self) -> bool:
        """No job runs again."""
        return self._closed

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; starts the thread where there is none, or where it died.

        Raises:
            SwitchgearError: the client is closed, or the thread did not start.
        """
        loop = self._loop
        if loop is not None and self.alive:
            return loop
        with self._lock:
            if self._closed:
                raise SwitchgearError("This client is closed.", hint="Make a new one.")
            if self._loop is None or not self.alive:
                self._start()
            assert self._loop is not None
            return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop."""
        try:
            loop = self.loop()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(self._own(work), loop)

    def close(self, timeout: float) -> bool:
        """Cancel the jobs and end the thread; False when it did not end within ``timeout`` seconds. Any number may call it."""
        with self._lock:
            first, self._closed = not self._closed, True
            thread, loop = self._thread, self._loop
        if thread is None or loop is None or not thread.is_alive():
            return True
        if first:  # a second stop would meet the clean-up that the first began
            with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
                loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        return not thread.is_alive()

    def _start(self) -> None:
        started = threading.Event()

        def body() -> None:
            loop = asyncio.new_event_loop()
            self._loop = loop
            try:
                self._tasks = {loop.create_task(self._keep(name, job)) for name, job in self._jobs.items()}
                loop.call_soon(started.set)
                loop.run_forever()
                _finish(loop, self._tasks)
            except BaseException:
                log.exception("the background thread died; the next event starts it again")
                raise
            finally:
                self._loop = None
                loop.close()
                for callback in self.after_death:
                    callback()

        self._thread = threading.Thread(target=body, name=f"{self._name}-background", daemon=True)
        self._thread.start()
        if not started.wait(_START_LIMIT_S):
            raise SwitchgearError(f"The background thread did not start within {_START_LIMIT_S:g} s.")

    async def _own(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await work
        finally:
            self._tasks.discard(task)

    async def _keep(self, name: str, job: Job) -> None:
        pause = 0.1
        while True:
            try:
                # In a task of its own: a task group that failed in it leaves CPython 3.11's and 3.12's task as if cancelled.
                await asyncio.create_task(job())
            except Exception as error:
                self.deaths[name] = f"{type(error).__name__}: {error}"
                log.exception("%s failed and is started again in %.1f s", name, pause)
            else:
                return
            stop_if_cancelled()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _forked(self) -> None:
        _inherited.append((self._thread, self._loop))
        self._thread = self._loop = None
        self._lock = threading.Lock()
        for callback in self.after_fork:
            callback()


async def clean_up(work: Coroutine[Any, Any, None], limit_s: float, what: str) -> bool:
    """Run a clean-up for at most ``limit_s`` seconds, also when the caller is cancelled meanwhile; errors are logged.

    ``wait_for`` alone would not do: a cancellation that is already pending ends it before ``work`` has begun.

    Returns:
        False when it failed or did not end in time.
    """
    task = asyncio.ensure_future(work)
    deadline = asyncio.get_running_loop().time() + limit_s
    cancelled = False
    while not task.done() and (left := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if not task.done():
        task.cancel()
    if cancelled:
        raise asyncio.CancelledError
    if task.done() and not task.cancelled() and task.exception() is None:
        return True
    why = task.exception() if task.done() and not task.cancelled() else f"not within {limit_s:g} s"
    log.debug("%s: %s", what, why)
    return False


def stop_if_cancelled() -> None:
    """Raise the cancellation that a library swallowed: ``asyncio.wait_for`` of 3.11 does so in a race with an error."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _finish(loop: asyncio.AbstractEventLoop, own: set[asyncio.Task[Any]]) -> None:
    """Cancel our own tasks and let them clean up (close their connections), for a bounded time; then whatever is left."""
    _cancel(loop, own, 3.0)
    _cancel(loop, asyncio.all_tasks(loop), 1.0)
    loop.run_until_complete(loop.shutdown_asyncgens())


def _cancel(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]], limit_s: float) -> None:
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    if pending:
        loop.run_until_complete(asyncio.wait(pending, timeout=limit_s))


def _after_fork() -> None:
    for background in list(_every):
        background._forked()  # noqa: SLF001 - the hook of this class


os.register_at_fork(after_in_child=_after_fork)
