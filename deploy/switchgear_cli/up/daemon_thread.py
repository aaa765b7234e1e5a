"""Blocking work beside an event loop, that does not keep the process from ending."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def in_daemon_thread(work: Callable[[], _Result]) -> _Result:
    """``asyncio.to_thread`` that does not keep the process from ending: a fetch can hang for minutes."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()

    def settle(settler: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if future.done() else settler())

    def target() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - handed to the one who waits
            failed = error
            settle(lambda: future.set_exception(failed))
        else:
            settle(lambda: future.set_result(result))

    threading.Thread(target=target, daemon=True, name=getattr(work, "__name__", "work")).start()
    return await future
