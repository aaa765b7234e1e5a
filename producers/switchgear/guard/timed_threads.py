"""Synchronous calls with a time limit, in a bounded number of threads.

Python can't stop a thread from outside. At the limit the caller gets its ``TimeoutError`` and goes on. The function runs on
until it returns, its result is thrown away, and its thread is taken until then. A tool that never returns takes its thread
for good, so their number is bounded. If you can, give the tool's own client (its socket, its driver) a time limit too.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final

from switchgear.guard.time_limit import CallTimeoutError, ThreadsBusyError
from switchgear.numeric import is_whole
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.errors import SwitchgearError

MOST_THREADS: Final = 64
IDLE_S: Final = 60.0
"""A thread ends after this many seconds without work."""
POLL_S: Final = 0.005
"""How often a coroutine that waits for a thread looks for one."""


class TimedCall:
    """One call in a thread."""

    def __init__(self, tool: str, limit_s: float, call: Callable[[], Any]) -> None:
        self.tool = tool
        self.limit_s = limit_s
        self.abandoned = False
        """Its caller has gone on without it."""
        self._call: Callable[[], Any] | None = call
        self._context = contextvars.copy_context()
        self._future: Future[Any] = Future()
        self._future.set_running_or_notify_cancel()

    def run(self) -> None:
        """Make the call, in a thread of its own."""
        call, self._call = self._call, None
        assert call is not None
        try:
            result = self._context.run(call)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self._future.set_exception(error)
        else:
            self._future.set_result(result)

    def wait(self) -> Any:
        """Return the result, or raise the exception, of the call.

        Raises:
            CallTimeoutError: It did not end in time.
        """
        try:
            wait([self._future], self.limit_s)
        finally:  # also after a KeyboardInterrupt of the caller
            self.abandoned = not self._future.done()
        if self.abandoned:
            raise CallTimeoutError(self.tool, self.limit_s)
        return self._result()

    async def until(self) -> Any:
        """Return the result, or raise the exception, of the call. The caller keeps the limit and cancels this."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end(_future: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(ended.set)

        self._future.add_done_callback(end)
        try:
            await ended.wait()
        finally:
            self.abandoned = not self._future.done()
        return self._result()

    def _result(self) -> Any:
        future = self._future
        error = future.exception()
        if error is None:
            return future.result()
        del self._future, future  # the error's traceback holds this frame: no reference back to the error
        try:
            raise error
        finally:
            del error


class TimedThreads:
    """Call functions in daemon threads. Thread-safe.

    Threads start when they are needed. They are daemons, so a call that never returns doesn't keep the interpreter from ending.

    Args:
        limit: The most threads, counting those whose call has exceeded its limit.

    Raises:
        SwitchgearError: ``limit`` isn't a whole number from 1.
    """

    def __init__(self, limit: int = MOST_THREADS) -> None:
        if not is_whole(limit) or limit < 1:
            raise SwitchgearError(f"timed_threads must be a whole number from 1, not {limit!r:.100}.")
        self._limit = limit
        self._reset()
        call_in_child(self._reset)

    def start(
        self, tool: str, limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> TimedCall:
        """Start a call in a thread. If all are busy, wait for one for at most ``limit_s`` seconds.

        Raises:
            ThreadsBusyError: No thread became free. The call was not made.
        """
        call = TimedCall(tool, limit_s, lambda: function(*args, **kwargs))
        with self._changed:
            if not self._changed.wait_for(self._has_room, limit_s):
                raise self._busy_error(tool)
            self._add(call)
        return call

    async def astart(
        self, tool: str, limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> TimedCall:
        """:meth:`start` without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - see TimedCall.until

        call = TimedCall(tool, limit_s, lambda: function(*args, **kwargs))
        give_up_at = time.monotonic() + limit_s
        while True:
            with self._changed:
                if self._has_room():
                    self._add(call)
                    return call
                if time.monotonic() >= give_up_at:
                    raise self._busy_error(tool)
            await asyncio.sleep(POLL_S)

    @property
    def busy(self) -> int:
        """The number of threads with a call, in time or late."""
        return len(self._running)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[TimedCall] = deque()
        self._running: set[TimedCall] = set()
        self._threads = 0

    def _has_room(self) -> bool:
        return len(self._running) + len(self._waiting) < self._limit

    def _add(self, call: TimedCall) -> None:
        """Pass a call to a thread, and start one if none is idle. The lock is held."""
        if self._threads < len(self._running) + len(self._waiting) + 1:
            try:
                threading.Thread(target=self._serve, name="switchgear-timed", daemon=True).start()
            except RuntimeError as error:  # the system's limit is reached, or the interpreter is ending
                raise ThreadsBusyError(call.tool, str(error)) from error
            self._threads += 1
        self._waiting.append(call)
        self._changed.notify_all()

    def _busy_error(self, tool: str) -> ThreadsBusyError:
        late = Counter(call.tool for call in self._running if call.abandoned).most_common(5)
        names = ", ".join(f"{name} {number}" for name, number in late)
        return ThreadsBusyError(
            tool,
            f"all {self._limit} threads for calls with a time limit are busy"
            f" ({f'past their limit and still running: {names}' if names else 'none of them is late'})",
            hint="Give those tools a time limit of their own, or the client more timed_threads.",
        )

    def _serve(self) -> None:
        changed = self._changed
        while True:
            with changed:
                while not self._waiting:
                    if not changed.wait(IDLE_S) and not self._waiting:
                        self._threads -= 1
                        return
                call = self._waiting.popleft()
                self._running.add(call)
            call.run()
            with changed:
                self._running.discard(call)
                changed.notify_all()
            del call
