"""TimedThreads: synchronous calls with a time limit, in a bounded number of threads.

A thread can't be stopped from outside. At the limit the caller gets its ``TimeoutError`` and goes on; the call itself runs
on until the function returns, its result is thrown away, and its thread is taken until then. A tool that hangs for good takes
its thread for good. That is why the number is bounded, and why a tool's own time limit (a socket's, a driver's) is the better one.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from switchgear.numeric import is_whole
from switchgear.redaction.redact import MOST_NAME, one_line
from switchgear_schemas.errors import SwitchgearError

MOST_THREADS: Final = 64
IDLE_S: Final = 60.0
"""A thread without work for so long ends."""
LOOK_AGAIN_S: Final = 0.005
"""A coroutine that waits for a thread looks for one so often."""
SHORT_WAIT: Final = 0.1
"""Of its limit a call may wait so much for a thread and still have had time: at the limit it is late by its own fault.

None at all would do for a quiet pool. In a crowded one every call waits a little, and a tool that hangs would never be told of.
"""


class CallTimeoutError(SwitchgearError, TimeoutError):
    """The call took longer than the guard's ``timeout``. ``tool`` and ``limit_s`` say which and how long.

    ``text``, ``str(error)`` and ``args[0]`` are one text, for the model; ``message`` is for operators and logs.
    ``queued_s``: so much of it passed before a thread was free, where that was more than a short wait; else 0.
    """

    def __init__(self, tool: str, limit_s: float, queued_s: float = 0.0) -> None:
        waited = f"; {queued_s:.2g} s of them it waited for a thread" if queued_s else ""
        late = f"did not answer within {limit_s:g} s{waited}."
        super().__init__(
            f"The tool {one_line(tool, MOST_NAME)} {late} Do not repeat the call at once: it may still take effect."
        )
        self.message = f"{tool} {late}"
        self.tool = tool
        self.limit_s = limit_s
        self.queued_s = queued_s

    @property
    def text(self) -> str:
        """For the model."""
        return str(self.args[0])

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[CallTimeoutError], tuple[str, float, float], dict[str, Any]]:
        return type(self), (self.tool, self.limit_s, self.queued_s), self.__dict__  # which holds notes


class ThreadsBusyError(SwitchgearError):
    """No thread was free for a call with a time limit, so it was not made. It counts against no circuit.

    ``text``, ``str(error)`` and ``args[0]`` are one text, for the model. ``message`` and ``hint`` are for operators: they
    say which tools hold the threads, and what to do. A traceback shows them as a note.
    """

    def __init__(self, tool: str, why: str = "no thread was free for it", *, hint: str = "") -> None:
        super().__init__(
            f"The tool {one_line(tool, MOST_NAME)} was not called: too many calls are under way."
            " Do not call it again now; go on without it, or try later.",
            hint=hint,
        )
        self.message = f"{tool} was not called: {why}."
        self.tool = tool
        self.add_note(f"{self.message} {hint}".strip())

    @property
    def text(self) -> str:
        """For the model."""
        return str(self.args[0])

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[ThreadsBusyError], tuple[str], dict[str, Any]]:
        return type(self), (self.tool,), self.__dict__


def check_in_task(tool: str) -> None:
    """A time limit cancels the task that it runs in: what drives a coroutine itself, or is no asyncio, has none.

    Raises:
        SwitchgearError: there is no task here.
    """
    import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

    try:
        if asyncio.current_task() is not None:
            return
    except RuntimeError:  # no event loop runs
        pass
    raise SwitchgearError(f"{tool} was not called: its time limit needs an asyncio task to run in.")


async def within(tool: str, limit_s: float, coming: Awaitable[Any], *, work: Work | None = None) -> Any:
    """Await ``coming`` for at most ``limit_s`` seconds; it is cancelled then, and it is late whatever it makes of that.

    Where ``work`` waited for a thread, that is a part of its limit.

    Raises:
        CallTimeoutError: it did not end in time.
    """
    import asyncio  # noqa: PLC0415 - see above

    scope = asyncio.timeout(limit_s if work is None else work.left_s())
    try:
        async with scope:
            result = await coming
    except Exception as error:
        if scope.expired():
            raise CallTimeoutError(tool, limit_s, 0.0 if work is None else work.robbed_s) from error
        raise
    if scope.expired():
        raise CallTimeoutError(tool, limit_s, 0.0 if work is None else work.robbed_s)
    return result


class Work:
    """One call on its way through a thread: done, or given up by its caller, whichever is first."""

    __slots__ = (
        "abandoned",
        "arguments",
        "context",
        "deadline",
        "done",
        "error",
        "function",
        "limit_s",
        "on_done",
        "queued_s",
        "result",
        "tool",
    )

    def __init__(self, tool: str, limit_s: float, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.tool = tool
        self.limit_s = limit_s
        self.deadline = time.monotonic() + limit_s
        self.function = function
        self.arguments: tuple[Any, Any] | None = (args, kwargs)
        self.context = contextvars.copy_context()
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.queued_s = 0.0
        """So long no thread was free for it."""
        self.on_done: Callable[[], object] | None = None
        """Called in the thread."""

    @property
    def robbed_s(self) -> float:
        """What the wait for a thread took of its limit, where that is not little: cut off, it says nothing of its tool."""
        return self.queued_s if self.queued_s > SHORT_WAIT * self.limit_s else 0.0

    def left_s(self) -> float:
        """Of its limit."""
        return max(0.0, self.deadline - time.monotonic())

    def waited(self) -> None:
        """A thread is free now, and was not before."""
        self.queued_s = time.monotonic() - self.deadline + self.limit_s

    def cut_short(self, error: BaseException) -> bool:
        """Is ``error`` its end at a limit of which it had no more than a part? One of a call within it is not."""
        return isinstance(error, CallTimeoutError) and error.queued_s == self.robbed_s != 0

    def run(self) -> None:
        """In a thread: make the call."""
        assert self.arguments is not None
        args, kwargs = self.arguments
        self.arguments = None
        try:
            result = self.context.run(self.function, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it is the caller's to raise
            if not self.abandoned:
                self.error = error
        else:
            if not self.abandoned:
                self.result = result
        finally:
            self.done.set()
            if self.on_done is not None:
                with contextlib.suppress(RuntimeError):  # its event loop is closed
                    self.on_done()

    def wait(self) -> Any:
        """The result, or its exception, within the limit.

        Raises:
            CallTimeoutError: it did not end in time.
        """
        in_time = False
        try:
            in_time = self.done.wait(self.left_s())
        finally:  # also after the caller's own interruption
            self.abandoned = not in_time
        if not in_time:
            raise CallTimeoutError(self.tool, self.limit_s, self.robbed_s)
        return self._outcome()

    async def until(self) -> Any:
        """The result, or its exception; the limit is the caller's to keep, who cancels this."""
        import asyncio  # noqa: PLC0415 - see within

        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self.on_done = lambda: loop.call_soon_threadsafe(ended.set)
        try:
            if not self.done.is_set():  # asked after on_done is there: one of both is seen
                await ended.wait()
        finally:
            self.abandoned = not self.done.is_set()
        return self._outcome()

    def _outcome(self) -> Any:
        if self.error is None:
            return self.result
        error, self.error = self.error, None
        try:
            raise error
        finally:
            del error, self  # the traceback holds this frame: no circle


class TimedThreads:
    """Thread-safe. Daemon threads, started at need, at most ``limit``: a hung call doesn't keep the interpreter from ending.

    Args:
        limit: Most threads, those with calls that passed their limit included.

    Raises:
        SwitchgearError: that is no number of threads.
    """

    def __init__(self, limit: int = MOST_THREADS) -> None:
        if not is_whole(limit) or limit < 1:
            raise SwitchgearError(f"timed_threads is a number of threads from 1 on, not {limit!r:.100}.")
        self._limit = limit
        self.forked()

    def run(
        self, tool: str, limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call ``function`` and return its result, or raise its exception, within ``limit_s`` seconds.

        Raises:
            CallTimeoutError: it did not end in time.
            ThreadsBusyError: no thread was free in that time; the call was not made.
        """
        return self.hand_over(tool, limit_s, function, args, kwargs).wait()

    def hand_over(
        self, tool: str, limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work:
        """Have ``function`` called by a thread; waits for one within the limit.

        Raises:
            ThreadsBusyError: no thread was free in that time; the call was not made.
        """
        work = Work(tool, limit_s, function, args, kwargs)
        with self._changed:
            waited = False
            while self._full():
                waited = True
                left = work.left_s()
                if not left or not self._changed.wait(left):
                    raise self._busy_error(tool)
            if waited:
                work.waited()
            self._take(work)
        return work

    async def ahand_over(
        self, tool: str, limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work:
        """:meth:`hand_over` that does not block the event loop."""
        import asyncio  # noqa: PLC0415 - see within

        work, waited = Work(tool, limit_s, function, args, kwargs), False
        while True:
            with self._changed:
                if waited and not work.left_s():  # also where a thread is free now: it would be cut off at once
                    raise self._busy_error(tool)
                if not self._full():
                    if waited:
                        work.waited()
                    self._take(work)
                    return work
            waited = True
            await asyncio.sleep(min(LOOK_AGAIN_S, work.left_s()))

    @property
    def busy(self) -> int:
        """Threads with a call, passed their limit or not."""
        return len(self._running)

    def forked(self) -> None:
        """In a child of a fork there are none of these threads."""
        self._changed = threading.Condition()
        self._waiting: deque[Work] = deque()
        self._running: set[Work] = set()
        self._threads = 0

    def _full(self) -> bool:
        return len(self._running) + len(self._waiting) >= self._limit

    def _take(self, work: Work) -> None:
        """A thread is free, or may be started; the lock is held."""
        if self._threads < len(self._running) + len(self._waiting) + 1:
            try:
                threading.Thread(target=self._serve, name="switchgear-timed", daemon=True).start()
            except RuntimeError as error:  # the system's limit, or the interpreter is ending
                raise ThreadsBusyError(work.tool, str(error)) from error
            self._threads += 1
        self._waiting.append(work)
        self._changed.notify_all()

    def _busy_error(self, tool: str) -> ThreadsBusyError:
        return ThreadsBusyError(
            tool,
            f"all {self._limit} threads for calls with a time limit are busy ({self._shown()})",
            hint="Give those tools a time limit of their own, or the client more timed_threads.",
        )

    def _shown(self) -> str:
        late = Counter(work.tool for work in self._running if work.abandoned)
        names = ", ".join(f"{tool} {number}" for tool, number in late.most_common(5))
        return f"passed their limit and still running: {names}" if names else "none of them late"

    def _serve(self) -> None:
        changed = self._changed
        while True:
            with changed:
                while not self._waiting:
                    if not changed.wait(IDLE_S) and not self._waiting:
                        self._threads -= 1
                        return
                work = self._waiting.popleft()
                self._running.add(work)
            work.run()
            with changed:
                self._running.discard(work)
                changed.notify_all()
            del work
