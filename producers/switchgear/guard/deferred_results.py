"""Report the end of calls whose function returns something that is still to be awaited.

A plain function behind a decorator, a lambda or a partial may do so. The outcome of the call is reported when the result is
awaited. If it never is, nothing is reported. Such results serve one caller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Coroutine, Generator
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, Any

from switchgear.classify.result import HARMLESS

if TYPE_CHECKING:
    from switchgear.guard.call import Call


def awaits(result: Any) -> bool:
    """Return whether ``result`` is there to be awaited.

    What can be iterated as well (a query, a cursor) is not: its reader may never await it.
    """
    kind = type(result)
    return hasattr(kind, "__await__") and not hasattr(kind, "__aiter__")


def finish(call: Call, result: Any) -> None:
    """Report that ``call`` returned ``result``, now or when the result is awaited.

    The time until the caller awaits the result is not part of the call's duration. A future runs on its own: the caller gets
    it as it is, and all of its time counts.
    """
    if call.permit is None or type(result) in HARMLESS or not awaits(result):
        call.succeeded(result)
        return
    call.key = None  # it serves one caller
    if hasattr(result, "_asyncio_future_blocking"):  # asyncio's own way to ask for a future
        call.value = result
        result.add_done_callback(lambda future: _report_future(call, future))
    else:
        call.value = DeferredResult(call, result)


def _report_future(call: Call, future: Any) -> None:
    try:
        result = future.result()
    except BaseException as error:  # noqa: BLE001 - whoever reads the future gets it too
        call.failed(error)
    else:
        call.succeeded(result)


class DeferredResult(Coroutine[Any, Any, Any]):
    """A coroutine in place of an awaitable, with the awaitable's other attributes.

    Some may be entered instead, as in ``async with session.get(url)``. Entering it is the call then.
    """

    def __init__(self, call: Call, awaitable: Any) -> None:
        self._call = call
        self._awaitable = awaitable
        self._returned_at = call.clock()
        call.rests()
        self._steps = _awaited(call, awaitable, self._returned_at)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._awaitable, name)

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self._steps.__await__())  # a generator: it keeps this object alive

    def send(self, value: Any) -> Any:
        """Resume it with a value."""
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Resume it with an exception."""
        self._leave_unstarted()
        return self._steps.throw(*error)

    def close(self) -> None:
        """End it. If it has not started, the call counts as not made."""
        self._leave_unstarted()
        self._steps.close()

    def _leave_unstarted(self) -> None:
        if getcoroutinestate(self._steps) == CORO_CREATED:
            with contextlib.suppress(AttributeError):  # not every awaitable can be closed
                self._awaitable.close()
            self._call.not_made()

    async def __aenter__(self) -> Any:
        self._steps.close()  # it is not awaited any more
        return await _awaited(self._call, self._awaitable.__aenter__(), self._returned_at)

    async def __aexit__(self, *error: object) -> Any:
        return await self._awaitable.__aexit__(*error)

    def __del__(self) -> None:
        if getcoroutinestate(self._steps) == CORO_CREATED:
            self._steps.close()
            self._call.not_made()


async def _awaited(call: Call, awaitable: Awaitable[Any], returned_at: float) -> Any:
    call.paused(call.clock() - returned_at)
    with call:
        result = await awaitable
    call.succeeded(result)
    return result
