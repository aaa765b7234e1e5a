"""Guarded generators: the circuit is asked at the first item, and told how the whole iteration ended.

Exhausted is a success, an exception a failure. A stream that its reader leaves early (``break``, ``close()``, or it is simply
forgotten and collected) is cancelled: it says nothing of the tool, and its permit is given back. So is one that its reader's own
exception goes through, as of the body of a ``with`` that ``contextlib`` made a generator of. What counts as the call's
time is the tool's, not what its reader does between two items.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from switchgear.guard.call import Call
from switchgear.guard.iteration import END, aiterated, iterated
from switchgear.guard.rich import aprepare, check_timed, prepare
from switchgear.guard.stream_items import aitems_of, items_of
from switchgear.guard.time_limit import within
from switchgear.usage import NOTHING

if TYPE_CHECKING:
    from switchgear.guard.plan import Plan

_ENDS = (StopIteration, StopAsyncIteration)
"""Thrown into a generator and not caught there, they come out as the cause of a RuntimeError."""


def guarded_stream(plan: Plan, function: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
    """The generator function ``function`` behind its circuit. Values, exceptions and the result pass both ways."""

    def stream(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = Call(plan, "generator", function, args, kwargs, plan.key(function, args, kwargs))
        prepare(call)
        if call.permit is None:
            return (yield from items_of(call.function(*call.args, **call.kwargs)))
        return (yield from iterated(_Metered(call)))

    return stream


def guarded_astream(plan: Plan, function: Callable[..., Any]) -> Callable[..., AsyncGenerator[Any, Any]]:
    """The async generator function ``function`` behind its circuit. A time limit is for each item."""

    async def enter(*args: Any, **kwargs: Any) -> _Metered:
        call = Call(plan, "async_generator", function, args, kwargs, plan.key(function, args, kwargs))
        await aprepare(call)
        check_timed(call)
        return _Metered(call)

    return aiterated(enter)


class _Metered:
    """The items' usage, and the time that was the reader's. Of a function that stands in: nothing."""

    __slots__ = ("_call", "_left_at", "_usage")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._usage = NOTHING
        self._left_at: float | None = None
        """Since when it is its reader's turn; None while it is the tool's."""

    def begin(self) -> Any:
        call = self._call
        items = call.function(*call.args, **call.kwargs)
        call.entered = True
        return items if call.permit is not None else aitems_of(items)

    async def next(self, coming: Awaitable[Any]) -> Any:
        """The item that is ``coming``, within the time limit."""
        call = self._call
        limit = call.acting.timeout
        try:
            return await (coming if limit is None or call.permit is None else within(call.tool, limit, coming))
        except StopAsyncIteration:
            return END

    def item(self, item: Any) -> None:
        plan = self._call.acting
        if self._call.permit is None:
            return
        self._left_at = plan.runtime.clock()
        if plan.usage is not None:
            self._usage += plan.used(item)

    def resumed(self) -> None:
        left_at, self._left_at = self._left_at, None
        if left_at is not None:
            self._call.paused(self._call.clock() - left_at)

    def succeeded(self, result: Any) -> None:  # noqa: ARG002 - what a generator returns is no item of its
        if self._call.permit is not None:
            self._call.finished(self._usage)

    def failed(self, error: BaseException, thrown: BaseException | None) -> None:
        """Cancelled is one that its reader left: early, or by an exception of its own, ``thrown`` in."""
        if isinstance(error, GeneratorExit):
            self.resumed()
        if error is thrown or (isinstance(thrown, _ENDS) and error.__cause__ is thrown):
            self._call.left(error, self._usage)
        else:
            self._call.failed(error, self._usage)
