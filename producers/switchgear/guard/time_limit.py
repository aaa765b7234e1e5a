"""The time limits of calls.

A coroutine is cancelled at its limit. A function with a limit runs in one of a bounded number of threads. Python can't stop
a thread from outside: at the limit the caller gets its ``TimeoutError`` and goes on. The function runs on until it returns,
its result is dropped, and its thread is taken until then.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final

from switchgear.model_text import name_for_model
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.errors import SwitchgearError

IDLE_S: Final = 60.0
"""A thread ends after this many seconds without work."""


class _ToolCallError(SwitchgearError):
    """An error with one text for the model: ``text``, ``str(error)`` and ``args[0]``.

    ``message`` and ``hint`` are for operators and logs.
    """

    def __init__(self, tool: str, text: str, message: str, *, hint: str = "") -> None:
        super().__init__(text, hint=hint)
        self.message = message
        self.tool = tool

    @property
    def text(self) -> str:
        """What to show to the model."""
        return str(self.args[0])

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (type(self), self.args), self.__dict__  # which holds notes


def _copied(kind: type[_ToolCallError], args: tuple[Any, ...]) -> _ToolCallError:
    error = kind.__new__(kind)
    error.args = args
    return error


class CallTimeoutError(_ToolCallError, TimeoutError):
    """The call took longer than the guard's ``timeout``: ``tool`` and ``limit_s`` say which tool exceeded which limit."""

    def __init__(self, tool: str, limit_s: float) -> None:
        late = f"did not answer within {limit_s:g} s."
        super().__init__(
            tool,
            f"The tool {name_for_model(tool)} {late} Do not repeat the call at once: it may still take effect.",
            f"{tool} {late}",
        )
        self.limit_s = limit_s


class ThreadsBusyError(_ToolCallError):
    """No thread was free for a call with a time limit, so it was not made. It counts against no circuit.

    ``message`` and ``hint`` name the tools that hold the threads, and say what to do. A traceback shows them as a note.
    """

    def __init__(self, tool: str, why: str = "no thread was free for it", *, hint: str = "") -> None:
        super().__init__(
            tool,
            f"The tool {name_for_model(tool)} was not called: too many calls are under way."
            " Do not call it again now; go on without it, or try later.",
            f"{tool} was not called: {why}.",
            hint=hint,
        )
        self.add_note(f"{self.message} {hint}".strip())


async def within(tool: str, limit_s: float, coming: Awaitable[Any]) -> Any:
    """Await ``coming`` for at most ``limit_s`` seconds, then cancel it.

    Raises:
        CallTimeoutError: It did not end in time, whatever it made of its cancellation.
    """
    import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

    scope = asyncio.timeout(limit_s)
    try:
        async with scope:
            result = await coming
    except Exception as error:
        if scope.expired():
            raise CallTimeoutError(tool, limit_s) from error
        raise
    if scope.expired():
        raise CallTimeoutError(tool, limit_s)
    return result


class TimedThreads:
    """Call functions in at most ``limit`` daemon threads: one that never returns doesn't keep the interpreter from ending.

    Thread-safe. A thread starts when none is idle.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reset()
        call_in_child(self._reset)

    def start(self, tool: str, limit_s: float, call: Callable[[], Any]) -> Future[Any]:
        """Start a call in a thread. If all are busy, wait for one for at most ``limit_s`` seconds.

        Raises:
            ThreadsBusyError: No thread became free, or none could be started. The call was not made.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_room, limit_s):
                raise self._busy_error(tool)
            return self._started(tool, limit_s, call)

    def result(self, started: Future[Any], tool: str, limit_s: float) -> Any:
        """Wait for the result of a call.

        Raises:
            CallTimeoutError: It did not end in time. What the function raises goes through.
        """
        with contextlib.suppress(TimeoutError):  # of the wait, or of the function
            return started.result(limit_s)
        if not started.done():
            raise CallTimeoutError(tool, limit_s)
        return started.result()

    @property
    def busy(self) -> int:
        """The number of threads with a call, in time or late."""
        return len(self._running)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[Future[Any], tuple[str, float]] = {}
        """By call, its tool and when it is late."""
        self._work: SimpleQueue[tuple[contextvars.Context, Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle = 0
        """Threads that wait for work, without those whose work is in the queue already."""

    def _has_room(self) -> bool:
        return len(self._running) < self._limit

    def _started(self, tool: str, limit_s: float, call: Callable[[], Any]) -> Future[Any]:
        """Pass the call to an idle thread, or start one. The lock is held."""
        started: Future[Any] = Future()
        started.set_running_or_notify_cancel()
        if self._idle:
            self._idle -= 1
        else:
            try:
                threading.Thread(target=self._serve, name="switchgear-timed", daemon=True).start()
            except RuntimeError as error:  # the system's limit is reached, or the interpreter is ending
                raise ThreadsBusyError(tool, str(error)) from error
        self._running[started] = tool, time.monotonic() + limit_s
        self._work.put((contextvars.copy_context(), started, call))
        return started

    def _serve(self) -> None:
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """Run the next call. Return False if this thread is no longer needed."""
        try:
            context, started, call = self._work.get(timeout=IDLE_S)
        except Empty:
            with self._changed:
                if not self._idle:  # a call was passed to this thread just now
                    return True
                self._idle -= 1
                return False
        try:
            result = context.run(call)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self._ended(started)
            started.set_exception(error)
        else:
            self._ended(started)
            started.set_result(result)
        return True

    def _ended(self, started: Future[Any]) -> None:
        with self._changed:
            del self._running[started]
            self._idle += 1
            self._changed.notify_all()

    def _busy_error(self, tool: str) -> ThreadsBusyError:
        now = time.monotonic()
        late = Counter(name for name, late_at in self._running.values() if late_at <= now).most_common(5)
        names = ", ".join(f"{name} {number}" for name, number in late)
        return ThreadsBusyError(
            tool,
            f"all {self._limit} threads for calls with a time limit are busy"
            f" ({f'past their limit and still running: {names}' if names else 'none of them is late'})",
            hint="Give those tools a time limit of their own, or the client more timed_threads.",
        )
