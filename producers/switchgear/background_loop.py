"""The event loop of the background thread: how it is made, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import encodings.idna  # noqa: F401 - every lookup needs it; a child forked while a thread imports it could look up nothing
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from switchgear.importing import looking_up

P = ParamSpec("P")
T = TypeVar("T")

_JOBS_LIMIT_S: Final = 3.0
_REST_LIMIT_S: Final = 1.0


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
                with looking_up:
                    result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            threading.Thread(target=work, name="switchgear-lookup", daemon=True).start()
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
