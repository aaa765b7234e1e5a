"""The one background thread of a client: it runs everything that talks to Kafka in an event loop of its own.

So the SDK works the same from synchronous code, from threads and from several event loops. The thread is a daemon,
started at the first need. After ``os.fork`` the child has no such thread: its next need starts a fresh one.
"""

from __future__ import annotations

import asyncio
import contextlib
import encodings.idna  # noqa: F401 - every lookup needs it; a child forked while a thread imports it could look up nothing
import logging
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from switchgear.runtime.fork import blocking_work, call_in_child
from switchgear_schemas.errors import SwitchgearError

log: Final = logging.getLogger("switchgear.background")
T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, None]]

START_AGAIN_S: Final = 1.0
"""After a start that failed; until then who needs the thread is told at once."""
_LONGEST_PAUSE_S: Final = 5.0
_POLL_S: Final = 0.005
_NO_MEANS: Final = (OSError, RuntimeError, MemoryError)
"""What a start fails by: no file, thread or memory is left."""
# A forked child must not close its parent's loop: both share one epoll descriptor. Kept, hence never collected.
_inherited: Final[list[object]] = []


class NotStartedError(SwitchgearError):
    """The background thread can't be started now, for want of files or threads say; it is tried again at the next need."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The background thread can't be started: {why}.", hint="It is tried again once a second.")


class Background:
    """Owner of the thread, its loop, and the jobs that run in it for as long as the client lives."""

    def __init__(self, name: str = "switchgear") -> None:
        self._name = name
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()  # a signal handler may close, or call a tool, while the thread is started
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = self._closed = False
        self._failed: tuple[str, float] | None = None
        """Why the last start failed, and until when none is tried."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.deaths: dict[str, str] = {}
        """Last error of every job that ended by one; each was started again."""
        self.after_death: list[Callable[[], None]] = []
        """Called when the thread ended by an error; the next :meth:`loop` starts it again."""
        self.on_start: list[Callable[[], None]] = []
        """Called by whoever starts the thread, when it is started."""
        call_in_child(self._reset_in_child)

    def add(self, name: str, job: Job) -> None:
        """Register a job before the thread is started. A job that fails is logged and started again."""
        self._jobs[name] = job

    @property
    def alive(self) -> bool:
        """The thread runs, or is about to.

        ``Thread.is_alive`` is not asked: interrupted by a signal handler that raises, it takes a running thread for stopped ever after.
        """
        return self._loop is not None

    @property
    def here(self) -> bool:
        """The caller runs in the thread: what waits for it would wait for itself."""
        return self._thread is threading.current_thread()

    @property
    def closed(self) -> bool:
        """No job runs again."""
        return self._closed

    def loop(self) -> asyncio.AbstractEventLoop:
        """The thread's loop; starts the thread where there is none, or where it died, and does not wait until it is busy with it.

        Raises:
            NotStartedError: the thread can't be started now.
            SwitchgearError: the client is closed.
        """
        loop = self._loop
        if loop is not None:
            return loop
        with self._lock:
            self._refuse_if_closed()
            if self._loop is not None:
                return self._loop
            loop = self._start()
        for callback in self.on_start:
            callback()
        return loop

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop."""
        try:
            loop = self.loop()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(self._own(work), loop)

    def start_or_run_here(self, done: Callable[[], bool], limit_s: float) -> None:
        """Start the thread. Where none can be started, run the jobs here until ``done()``, for at most ``limit_s`` seconds.

        For the end of the interpreter: since Python 3.12 it starts no thread any more.
        """
        try:
            self.loop()
        except NotStartedError:
            self._run_here(done, time.monotonic() + limit_s)

    def close(self, timeout: float) -> bool:
        """Cancel the jobs and end the thread; False when it did not end within ``timeout`` seconds. Any number may call it."""
        with self._lock:
            first, self._closed = not self._closed, True
            thread, loop, starting = self._thread, self._loop, self._starting
        if thread is None:
            return True
        if first and loop is not None:  # a second stop would meet the clean-up that the first began
            with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
                loop.call_soon_threadsafe(loop.stop)
        if (
            starting and not thread.is_alive()
        ):  # a signal handler's close amid the start: what it interrupted must go on first
            return False
        if self.here:  # a log handler's close, say: the thread ends when it is back in its loop
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SwitchgearError("This client is closed.", hint="Make a new one.")

    def _start(self) -> asyncio.AbstractEventLoop:
        """With the lock held. The loop is made here: what is asked of it waits in it until the thread has come so far."""
        if self._starting:
            raise NotStartedError("it is being started by what this call interrupted")
        if self._failed is not None and time.monotonic() < self._failed[1]:
            raise NotStartedError(self._failed[0])
        loop: asyncio.AbstractEventLoop | None = None
        turn = [True]  # who takes it decides: the thread, that it runs, or we, interrupted, that it never does
        try:
            self._starting = True
            self._loop = None
            loop = new_loop()
            self._thread = threading.Thread(
                target=self._body, args=(loop, turn), name=f"{self._name}-background", daemon=True
            )
            self._loop = loop
            self._refuse_if_closed()  # a signal handler may have closed it since
            self._thread.start()
        except BaseException as error:
            if _taken(turn):
                self._thread = self._loop = None
                if loop is not None:
                    loop.close()
            if not isinstance(error, _NO_MEANS) or isinstance(error, TimeoutError):  # raised by a signal handler
                raise
            why = f"{type(error).__name__}: {error}"
            self._failed = (why, time.monotonic() + START_AGAIN_S)
            raise NotStartedError(why) from error
        else:
            self._failed = None
            return loop
        finally:
            self._starting = False

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
        self._body(loop, [True])
        self._thread = None

    def _body(self, loop: asyncio.AbstractEventLoop, turn: list[bool]) -> None:
        if not _taken(turn):
            return
        try:
            jobs = {} if self._closed else self._jobs
            self._tasks = {loop.create_task(self._keep(name, job)) for name, job in jobs.items()}
            loop.run_forever()
            finish(loop, self._tasks)
        except BaseException:
            log.exception("the background thread died; the next event starts it again")
            raise
        finally:
            self._loop = None
            loop.close()
            for callback in self.after_death:
                callback()

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
            except (KeyboardInterrupt, SystemExit, GeneratorExit):  # the loop itself ends by these
                raise
            except BaseException as error:  # whatever a library's panic or a test's failure derives from
                if isinstance(error, asyncio.CancelledError):  # our own end, or one that the job made up
                    stop_if_cancelled()
                self.deaths[name] = f"{type(error).__name__}: {error}"
                log.exception("%s failed and is started again in %.1f s", name, pause)
            else:
                return
            stop_if_cancelled()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _reset_in_child(self) -> None:
        _inherited.append((self._thread, self._loop))
        self._thread = self._loop = None
        self._lock = threading.RLock()
        self._starting, self._failed = False, None


def _taken(turn: list[bool]) -> bool:
    """Whether the caller was the first to ask; one step, whoever else asks."""
    try:
        return turn.pop()
    except IndexError:
        return False


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


P = ParamSpec("P")

_JOBS_LIMIT_S: Final = 3.0
_REST_LIMIT_S: Final = 1.0
WORKER: Final = "switchgear-worker"
"""Name of the threads that do what would block the loop."""


class DaemonExecutor(ThreadPoolExecutor):
    """Runs what would block the loop, such as the lookup of a host name, also while the interpreter ends.

    asyncio's own executor takes no work from the moment the main script ends. A client that connects only then could
    not look up its brokers. Python also waits for that executor's threads, however long a lookup hangs.

    Each piece of work has a daemon thread of its own. There are few: a client has one or two connection attempts under way.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start ``fn`` in a thread. Without a thread to be had, run it here."""
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
    """A loop. Its three files are tried for first: where it lacks one, half a loop is left, which complains when it is collected."""
    with contextlib.ExitStack() as tried:
        for each in (*socket.socketpair(), *socket.socketpair()):
            tried.enter_context(each)
    loop = asyncio.new_event_loop()
    loop.set_default_executor(DaemonExecutor())
    loop.set_debug(False)  # -X dev is for the program's own loops; here it would report every slow import
    return loop


def at_shutdown(error: BaseException) -> bool:
    """Whether a thread can't be started because the interpreter ends, which Python tells in words alone."""
    return "at interpreter shutdown" in str(error)


def finish(loop: asyncio.AbstractEventLoop, own: set[asyncio.Task[Any]]) -> None:
    """Cancel our own tasks and let them clean up (close their connections), for a bounded time; then whatever is left."""
    _cancel(loop, own, _JOBS_LIMIT_S)
    _cancel(loop, asyncio.all_tasks(loop), _REST_LIMIT_S)
    loop.run_until_complete(loop.shutdown_asyncgens())


def _cancel(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]], limit_s: float) -> None:
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    if pending:
        loop.run_until_complete(asyncio.wait(pending, timeout=limit_s))
