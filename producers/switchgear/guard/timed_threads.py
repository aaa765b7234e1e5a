"""Synchronous calls with a time limit, in a bounded number of threads.

Python can't stop a thread from outside. At the limit the caller gets its ``TimeoutError`` and goes on. The function runs on
until it returns, its result is thrown away, and its thread is taken until then. A tool that never returns takes its thread
for good, so their number is bounded. If you can, give the tool's own client (its socket, its driver) a time limit too.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from typing import Any, Final

from switchgear.guard.time_limit import CallTimeoutError, ThreadsBusyError
from switchgear.runtime.fork import call_in_child

POLL_S: Final = 0.005
"""How often a coroutine that waits for a thread looks for one."""
IDLE_S: Final = 60.0
"""A thread ends after this many seconds without work."""


class TimedThreads:
    """Call functions in daemon threads: one that never returns doesn't keep the interpreter from ending. Thread-safe.

    A thread starts when none is idle.

    Args:
        limit: The most threads, counting those whose call has exceeded its limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reset()
        call_in_child(self._reset)

    def start(
        self, tool: str, limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Future[Any]:
        """Start a call in a thread. If all are busy, wait for one for at most ``limit_s`` seconds.

        Raises:
            ThreadsBusyError: No thread became free, or none could be started. The call was not made.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_room, limit_s):
                raise self._busy_error(tool)
            return self._started(tool, limit_s, lambda: function(*args, **kwargs))

    async def astart(
        self, tool: str, limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Future[Any]:
        """:meth:`start` without blocking the event loop."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        give_up_at = time.monotonic() + limit_s
        while True:
            with self._changed:
                if self._has_room():
                    return self._started(tool, limit_s, lambda: function(*args, **kwargs))
                if time.monotonic() >= give_up_at:
                    raise self._busy_error(tool)
            await asyncio.sleep(POLL_S)

    def result(self, started: Future[Any], tool: str, limit_s: float) -> Any:
        """Wait for the result of a call.

        Raises:
            CallTimeoutError: It did not end in time. What the function raises goes through.
        """
        wait([started], limit_s)
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
