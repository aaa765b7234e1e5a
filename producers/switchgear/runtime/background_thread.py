"""The background thread of a client, and its event loop. Everything that talks to Kafka runs there.

The SDK therefore works the same from synchronous code, from threads and from several event loops. The thread is a daemon, and
starts when it is first needed. The child of a fork has no such thread, so it starts another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import encodings.idna  # noqa: F401 - every look-up needs it, and a child forked during its import could look up nothing
import logging
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from switchgear.runtime.backoff import Backoff
from switchgear.runtime.fork import blocking_work, call_in_child
from switchgear.runtime.kafka_log import ours
from switchgear_schemas.errors import SwitchgearError

log: Final = logging.getLogger("switchgear.background")
P = ParamSpec("P")
T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, None]]

WORKER: Final = "switchgear-worker"
"""Name of the threads that do what would block the loop."""
_FIRST_PAUSE_S: Final = 0.1
_POLL_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 5.0
_JOBS_LIMIT_S: Final = 3.0
_REST_LIMIT_S: Final = 1.0
# A forked child must not close its parent's loop, because both share one epoll descriptor. This list keeps it alive.
_inherited: Final[list[object]] = []


class NotStartedError(SwitchgearError):
    """The background thread can't be started now, for example because no file or thread is left."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The background thread can't be started: {why}.", hint="The next event tries again.")


class Background:
    """Owns the thread, its loop, and the jobs that run in it until it is closed."""

    def __init__(self, name: str = "switchgear") -> None:
        self._name = name
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()  # a signal handler may close, or call a tool, during the start
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False
        """It was closed. No job runs again."""
        self.deaths: dict[str, str] = {}
        """The last error of each job that failed. Every job was started again."""
        self.after_death: list[Callable[[], None]] = []
        """Called when the thread has ended. The next :meth:`loop` starts another one."""
        self.on_start: list[Callable[[], None]] = []
        """Called in the thread that starts the background thread, after the start."""
        call_in_child(self._reset_in_child)

    def add(self, name: str, job: Job) -> None:
        """Register a job before the thread starts. A job that fails is logged and started again."""
        self._jobs[name] = job

    @property
    def alive(self) -> bool:
        """Whether the thread runs or is about to."""
        return self._loop is not None

    @property
    def here(self) -> bool:
        """Whether the caller runs in this thread, so that it must not wait for it."""
        return self._thread is threading.current_thread()

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop. Start the thread if it does not run, without waiting until it does.

        Raises:
            NotStartedError: The thread can't be started now.
            SwitchgearError: The client is closed.
        """
        loop = self._loop
        if loop is not None:
            return loop
        with self._lock:
            if self.closed:
                raise SwitchgearError("This client is closed.", hint="Make a new one.")
            loop = self._loop
            if loop is not None:
                return loop
            loop = self._start()
        for callback in self.on_start:
            callback()
        return loop

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop.

        Raises:
            SwitchgearError: As :meth:`loop`.
        """
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop())
        except BaseException:
            work.close()
            raise

    def start_or_run_here(self, done: Callable[[], bool], limit_s: float) -> None:
        """Start the thread. If that is impossible, run the jobs in the caller's thread until ``done()`` or ``limit_s`` seconds pass.

        This is for the end of the interpreter: since Python 3.12 no thread can be started then.
        """
        try:
            self.loop()
        except NotStartedError:
            self._run_here(done, time.monotonic() + limit_s)

    def close(self, timeout: float) -> bool:
        """Cancel the jobs and end the thread. Any number of threads may call it.

        Returns:
            False if the thread did not end within ``timeout`` seconds.
        """
        with self._lock:
            first, self.closed = not self.closed, True
            thread, loop = self._thread, self._loop
        if thread is None:
            return True
        if first and loop is not None:  # a second stop would interrupt the clean-up that the first one began
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(loop.stop)
        if self.here:  # a log handler closed it, for example: the thread ends when it is back in its loop
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def _start(self) -> asyncio.AbstractEventLoop:
        """Start the thread, with the lock held. The loop is made here, so that it can take work before the thread runs."""
        loop: asyncio.AbstractEventLoop | None = None
        thread: threading.Thread | None = None
        try:
            loop = new_loop()
            thread = threading.Thread(target=self._body, args=(loop,), name=f"{self._name}-background", daemon=True)
            self._thread, self._loop = thread, loop
            thread.start()
        except BaseException as error:
            if thread is not None and thread.is_alive():  # only the wait for it was interrupted
                raise
            self._thread = self._loop = None
            if loop is not None:
                loop.close()
            if not isinstance(error, Exception):
                raise
            raise NotStartedError(f"{type(error).__name__}: {error}") from error
        return loop

    def _run_here(self, done: Callable[[], bool], deadline: float) -> None:
        def look() -> None:
            if done() or time.monotonic() >= deadline:
                loop.stop()
            else:
                loop.call_later(_POLL_S, look)

        with self._lock:
            loop = self._loop = new_loop()
            self._thread = threading.current_thread()
        loop.call_soon(look)
        self._body(loop)
        self._thread = None

    def _body(self, loop: asyncio.AbstractEventLoop) -> None:
        before, ours.thread = ours.thread, True
        try:
            tasks = {loop.create_task(self._keep(name, job)) for name, job in self._jobs.items()}
            loop.run_forever()
            finish(loop, tasks)
        except BaseException:
            log.exception("the background thread died; the next event starts it again")
            raise
        finally:
            self._loop = None
            loop.close()
            ours.thread = before
            for callback in self.after_death:
                callback()

    async def _keep(self, name: str, job: Job) -> None:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                # It needs a task of its own: in CPython 3.11 and 3.12 a failed task group leaves its task as if cancelled.
                await asyncio.create_task(job())
            except (Exception, asyncio.CancelledError) as error:
                stop_if_cancelled()
                pause = backoff.next_s()
                self.deaths[name] = f"{type(error).__name__}: {error}"
                log.exception("%s failed and is started again in %.1f s", name, pause)
            else:
                return
            await asyncio.sleep(pause)

    def _reset_in_child(self) -> None:
        _inherited.append((self._thread, self._loop))
        self._thread = self._loop = None
        self._lock = threading.RLock()


async def clean_up(work: Coroutine[Any, Any, None], limit_s: float, what: str) -> bool:
    """Run a clean-up for at most ``limit_s`` seconds, also if the caller is cancelled meanwhile. Errors are logged.

    ``wait_for`` is not enough: a cancellation that is already pending ends it before ``work`` begins.

    Returns:
        False if it failed or did not end in time.
    """
    task = asyncio.ensure_future(work)
    deadline = asyncio.get_running_loop().time() + limit_s
    cancelled = False
    while not task.done() and (left := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    in_time = task.done()
    task.cancel()
    if cancelled:
        raise asyncio.CancelledError
    if in_time and not task.cancelled() and task.exception() is None:
        return True
    log.debug("%s failed, or took longer than %g s: %r", what, limit_s, task)
    return False


def stop_if_cancelled() -> None:
    """Raise a cancellation that a library swallowed. ``asyncio.wait_for`` of Python 3.11 can do so when an error comes at the same time."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class DaemonExecutor(ThreadPoolExecutor):
    """Runs what would block the loop, such as look-ups of host names and disk work, in a daemon thread each.

    asyncio's own executor takes no work after the end of the main script, so a client that connects only then could not look up
    its brokers. Python also waits for that executor's threads, however long a look-up hangs.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run ``fn`` in a thread, or in the caller's thread if none can be started."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                with blocking_work:
                    result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            threading.Thread(target=work, name=WORKER, daemon=True).start()
        except RuntimeError:  # since Python 3.12 no thread starts while the interpreter ends
            work()
        return future


def new_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop. Its three files are tried first, because a loop that fails half-way prints a warning when it is collected."""
    with contextlib.ExitStack() as tried:
        for each in (*socket.socketpair(), *socket.socketpair()):
            tried.enter_context(each)
    loop = asyncio.new_event_loop()
    loop.set_default_executor(DaemonExecutor())
    loop.set_debug(False)  # -X dev is for the program's own loops, and would report every slow import here
    return loop


def finish(loop: asyncio.AbstractEventLoop, own: set[asyncio.Task[None]]) -> None:
    """Cancel the jobs and give them time to close their connections. Then cancel what is left."""
    _cancel(loop, own, _JOBS_LIMIT_S)
    _cancel(loop, asyncio.all_tasks(loop), _REST_LIMIT_S)
    loop.run_until_complete(loop.shutdown_asyncgens())


def _cancel(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]], limit_s: float) -> None:
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    if pending:
        loop.run_until_complete(asyncio.wait(pending, timeout=limit_s))
