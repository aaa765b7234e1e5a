"""Report the end of calls whose function returns something that is still to be awaited.

A plain function behind a decorator, a lambda or a partial may do so. The outcome of the call is reported when the result is
awaited. If it never is, nothing is reported. Such results serve one caller.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable
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
        call.value = _awaited(call, result, call.clock())
        weakref.finalize(call.value, call.permit.release).atexit = False  # releases nothing once it was awaited


def _report_future(call: Call, future: Any) -> None:
    try:
        result = future.result()
    except BaseException as error:  # noqa: BLE001 - whoever reads the future gets it too
        call.failed(error)
    else:
        call.succeeded(result)


async def _awaited(call: Call, awaitable: Awaitable[Any], returned_at: float) -> Any:
    call.paused(call.clock() - returned_at)
    with call:
        result = await awaitable
    call.succeeded(result)
    return result
