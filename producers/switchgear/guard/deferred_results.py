"""Report the end of calls whose function returns something that is still to be awaited.

A plain function behind a decorator, a lambda or a partial may do so. The outcome of the call is reported when the result is
awaited. If it never is, nothing is reported. Such results serve one caller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from inspect import CO_ITERABLE_COROUTINE, CORO_CREATED, getcoroutinestate
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from switchgear.classify.result import failure_in, text_in

if TYPE_CHECKING:
    from switchgear.guard.permits import Permit


def awaits(result: Any) -> bool:
    """Return whether ``result`` is there to be awaited.

    What can be iterated as well (a query, a cursor) is not: its reader may never await it.
    """
    kind = type(result)
    if hasattr(kind, "__await__"):
        return not hasattr(kind, "__aiter__")
    return kind is GeneratorType and bool(result.gi_code.co_flags & CO_ITERABLE_COROUTINE)


def serves_once(result: Any) -> bool:
    """Return whether its first reader uses ``result`` up: an awaitable, an iterator, an open file."""
    kind = type(result)
    return any(hasattr(kind, name) for name in ("__await__", "__next__", "__anext__"))


class Report(Protocol):
    """Take the report of how a call ended. A :class:`~switchgear.guard.call.Call` does."""

    def succeeded(self, result: Any, /) -> None:
        """Report that the call returned ``result``."""

    def failed(self, error: BaseException, /) -> object:
        """Report that the call raised ``error``."""

    def not_made(self) -> None:
        """Report that the result was never awaited."""

    def paused(self, seconds: float, /) -> None:
        """Report time that is not part of the call's duration."""


def deferred(awaitable: Any, report: Report, clock: Callable[[], float]) -> Any:
    """Return ``awaitable``, or a coroutine in place of it, and report how it ends.

    The time until the caller awaits the result is not part of the call's duration. A future runs on its own: it is returned
    as it is, and all of its time counts.
    """
    if hasattr(awaitable, "_asyncio_future_blocking"):  # asyncio's own way to ask for a future
        if awaitable.done():
            _report_future(awaitable, report)
        else:
            awaitable.add_done_callback(lambda future: _report_future(future, report))
        return awaitable
    kind = DeferredContext if hasattr(type(awaitable), "__aenter__") else DeferredResult
    return kind(awaitable, report, clock)


def _report_future(future: Any, report: Report) -> None:
    try:
        result = future.result()
    except BaseException as error:  # noqa: BLE001 - whoever reads the future gets it too
        report.failed(error)
    else:
        report.succeeded(result)


class DeferredResult(Coroutine[Any, Any, Any]):
    """A coroutine in place of an awaitable, with the awaitable's other attributes."""

    __slots__ = ("__weakref__", "_awaitable", "_clock", "_report", "_returned_at", "_steps")

    def __init__(self, awaitable: Any, report: Report, clock: Callable[[], float]) -> None:
        self._awaitable = awaitable
        self._report = report
        self._clock = clock
        self._returned_at = clock()
        self._steps = _awaited(awaitable, report, clock, self._returned_at)

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
            self._report.not_made()

    def __del__(self) -> None:
        if getcoroutinestate(self._steps) == CORO_CREATED:
            self._steps.close()
            self._report.not_made()


class DeferredContext(DeferredResult):
    """The same for what may be entered instead, as ``async with session.get(url)``: entering it is the call."""

    __slots__ = ()

    async def __aenter__(self) -> Any:
        self._steps.close()  # it is not awaited any more
        return await _awaited(self._awaitable.__aenter__(), self._report, self._clock, self._returned_at)

    async def __aexit__(self, *error: object) -> Any:
        return await self._awaitable.__aexit__(*error)


async def _awaited(awaitable: Awaitable[Any], report: Report, clock: Callable[[], float], returned_at: float) -> Any:
    report.paused(clock() - returned_at)
    try:
        result = await awaitable
    except BaseException as error:
        report.failed(error)
        raise
    report.succeeded(result)
    return result


# -- for the fast path ------------------------------------------------------------------------------------------------


def needs_report(result: Any) -> bool:
    """Return whether ``result`` is more than a plain success: still to be awaited, or a failure."""
    return (type(result) is not dict and awaits(result)) or failure_in(result) is not None


def reported(permit: Permit, result: Any) -> Any:
    """Report the end of a call that has nothing but its ``permit``, now or when ``result`` is awaited."""
    report = _PermitReport(permit)
    if awaits(result):
        return deferred(result, report, permit.reporter.clock)
    report.succeeded(result)
    return result


class _PermitReport:
    __slots__ = ("_permit", "not_made", "paused")

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self.paused = permit.paused
        self.not_made = permit.release

    def succeeded(self, result: Any) -> None:
        failure = failure_in(result)
        if failure is None:
            self._permit.success()
        else:
            self._permit.failure(text_in(result), classification=failure)

    def failed(self, error: BaseException) -> None:
        self._permit.failure(error)
