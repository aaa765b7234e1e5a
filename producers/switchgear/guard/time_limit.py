"""TimedThreads: synchronous calls with a time limit, in a bounded number of threads.

A thread can't be stopped from outside. At the limit the caller gets its ``TimeoutError`` and goes on; the call itself runs
on until the function returns, its result is thrown away, and its thread is taken until then. A tool that hangs for good takes
its thread for good. That is why the number is bounded, and why a tool's own time limit (a socket's, a driver's) is the better one.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from switchgear_schemas.errors import SwitchgearError

MOST_THREADS: Final = 64
IDLE_S: Final = 60.0
"""A thread without work for so long ends."""


class CallTimeoutError(SwitchgearError, TimeoutError):
    """The call took longer than the guard's ``timeout``. ``tool`` and ``limit_s`` say which and how long."""

    def __init__(self, tool: str, limit_s: float) -> None:
        super().__init__(f"{tool} did not answer within {limit_s:g} s.")
        self.tool = tool
        self.limit_s = limit_s

    def __reduce__(self) -> tuple[type[CallTimeoutError], tuple[str, float]]:
        return type(self), (self.tool, self.limit_s)


class ThreadsBusyError(SwitchgearError):
    """No thread was free for a call with a time limit, so it was not made. It counts against no circuit."""


class _Work:
    """One call on its way through a thread: done, or given up by its caller, whichever is first."""

    __slots__ = ("abandoned", "arguments", "context", "done", "error", "function", "result", "tool")

    def __init__(self, tool: str, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.tool = tool
        self.function = function
        self.arguments: tuple[Any, Any] | None = (args, kwargs)
        self.context = contextvars.copy_context()
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.abandoned = False

    def run(self) -> None:
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


class TimedThreads:
    """Thread-safe. Daemon threads, started at need, at most ``limit``: a hung call doesn't keep the interpreter from ending.

    Args:
        limit: Most threads, those with calls that passed their limit included.
    """

    def __init__(self, limit: int = MOST_THREADS) -> None:
        if limit < 1:
            raise SwitchgearError(f"There must be at least 1 thread for calls with a time limit, not {limit}.")
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
        deadline = time.monotonic() + limit_s
        work = _Work(tool, function, args, kwargs)
        self._hand_over(work, deadline)
        in_time = False
        try:
            in_time = work.done.wait(max(0.0, deadline - time.monotonic()))
        finally:  # also after the caller's own interruption
            work.abandoned = not in_time
        if not in_time:
            raise CallTimeoutError(tool, limit_s)
        if work.error is not None:
            try:
                raise work.error
            finally:
                del work  # the traceback holds this frame: no circle
        return work.result

    @property
    def busy(self) -> int:
        """Threads with a call, passed their limit or not."""
        return len(self._running)

    def forked(self) -> None:
        """In a child of a fork there are none of these threads."""
        self._changed = threading.Condition()
        self._waiting: deque[_Work] = deque()
        self._running: set[_Work] = set()
        self._threads = 0

    def _hand_over(self, work: _Work, deadline: float) -> None:
        with self._changed:
            while len(self._running) + len(self._waiting) >= self._limit:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise ThreadsBusyError(
                        f"{work.tool} was not called: all {self._limit} threads for calls with a time limit are busy"
                        f" ({self._shown()}).",
                        hint="Give those tools a time limit of their own, or the client more timed_threads.",
                    )
            if self._threads < len(self._running) + len(self._waiting) + 1:
                try:
                    threading.Thread(target=self._serve, name="switchgear-timed", daemon=True).start()
                except RuntimeError as error:  # the system's limit, or the interpreter is ending
                    raise ThreadsBusyError(f"{work.tool} was not called: {error}.") from error
                self._threads += 1
            self._waiting.append(work)
            self._changed.notify_all()

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
