"""DeferredResult: a function that is no coroutine function returned something to await. How its call ended is known then, and told then.

A plain function behind a decorator, a lambda or a partial may do so. Its caller gets an awaitable that passes everything on to
the tool's own and reports its end; a future is handed back itself, and told of by a callback. Such results serve one caller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from inspect import CO_ITERABLE_COROUTINE
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from switchgear.classify.result import HARMLESS, failure_in, text_in

if TYPE_CHECKING:
    from switchgear.answer import Answer
    from switchgear.guard.permits import Permit
    from switchgear.guard.pipeline import Call


def awaits(result: Any) -> bool:
    """It is there to be awaited. What can also be iterated (a query, a cursor) is not: nobody knows how it will be used."""
    kind = type(result)
    if hasattr(kind, "__await__"):
        return not hasattr(kind, "__aiter__")
    return kind is GeneratorType and bool(result.gi_code.co_flags & CO_ITERABLE_COROUTINE)


class Report(Protocol):
    """Told once how a call ended; a :class:`~switchgear.guard.pipeline.Call` is one."""

    def succeeded(self, result: Any, /) -> None:
        """With ``result``."""

    def failed(self, error: BaseException, /) -> None:
        """With ``error``."""

    def not_made(self) -> None:
        """It was never awaited."""


def later(awaitable: Any, report: Report, begins: Callable[[], object] | None = None) -> Any:
    """``awaitable``, or what stands for it, with its end told to ``report``.

    ``begins`` is called when somebody awaits it, maybe long after the function returned it: the tool did nothing meanwhile. A
    future runs on its own.
    """
    if getattr(awaitable, "_asyncio_future_blocking", None) is not None:  # a future: asyncio's own way to ask
        end = _End(report)
        end.begin()
        if awaitable.done():
            end.of_future(awaitable)
        else:
            awaitable.add_done_callback(end.of_future)
        return awaitable
    kind = DeferredContext if hasattr(type(awaitable), "__aenter__") else DeferredResult
    return kind(awaitable, report, begins)


class _End:
    """Tells the first end that it sees, and at the latest its own."""

    __slots__ = ("_begins", "_begun", "_report")

    def __init__(self, report: Report, begins: Callable[[], object] | None = None) -> None:
        self._report: Report | None = report
        self._begins = begins
        self._begun = False

    def begin(self) -> None:
        begins, self._begins = self._begins, None
        self._begun = True
        if begins is not None:
            begins()

    def succeeded(self, result: Any) -> None:
        report, self._report = self._report, None
        if report is not None:
            report.succeeded(result)

    def failed(self, error: BaseException) -> None:
        report, self._report = self._report, None
        if report is not None:
            report.failed(error)

    def of_future(self, future: Any) -> None:
        # future.exception() would count as somebody's reading it, and asyncio tell nobody of one that nobody reads
        unread = None if future.cancelled() else getattr(future, "_exception", None)
        if isinstance(unread, BaseException):
            self.failed(unread)
            return
        try:
            result = future.result()
        except BaseException as error:  # noqa: BLE001 - its reader gets it too
            self.failed(error)
        else:
            self.succeeded(result)

    def __del__(self) -> None:
        report, self._report = self._report, None
        if report is not None:
            if self._begun:
                report.failed(GeneratorExit())
            else:
                report.not_made()


class DeferredResult(Coroutine[Any, Any, Any]):
    """A coroutine for everybody who wants one (tasks, ``asyncio.run``); its other attributes are those of what it stands for."""

    __slots__ = ("__weakref__", "_awaitable", "_end", "_steps")

    def __init__(self, awaitable: Any, report: Report, begins: Callable[[], object] | None = None) -> None:
        self._awaitable = awaitable
        self._end = _End(report, begins)
        self._steps: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._awaitable, name)

    def __await__(self) -> DeferredResult:
        return self

    def __iter__(self) -> DeferredResult:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Go on with it."""
        return self._moved(self._begun().send, value)

    def throw(self, *error: Any) -> Any:
        """Go on with it by an exception."""
        return self._moved(self._begun().throw, *error)

    def close(self) -> None:
        """Leave it; before its first step it counts as never made."""
        if self._steps is None:
            with contextlib.suppress(AttributeError):  # not everything that can be awaited can be closed
                self._awaitable.close()
            self._end.__del__()
            return
        try:
            self._steps.close()
        except BaseException as error:
            self._end.failed(error)
            raise
        self._end.failed(GeneratorExit())

    def _begun(self) -> Any:
        if self._steps is None:
            self._end.begin()
            awaitable = self._awaitable
            self._steps = (
                awaitable if hasattr(awaitable, "send") and hasattr(awaitable, "close") else _awaited(awaitable)
            )
        return self._steps

    def _moved(self, step: Any, *given: Any) -> Any:
        try:
            return step(*given)
        except StopIteration as end:
            self._end.succeeded(end.value)
            raise
        except BaseException as error:
            self._end.failed(error)
            raise


class DeferredContext(DeferredResult):
    """Of what may be entered instead of awaited, as ``async with session.get(url)``: entering it is the call."""

    __slots__ = ()

    async def __aenter__(self) -> Any:
        self._end.begin()
        try:
            entered = await self._awaitable.__aenter__()
        except BaseException as error:
            self._end.failed(error)
            raise
        self._end.succeeded(entered)
        return entered

    async def __aexit__(self, *error: object) -> Any:
        return await self._awaitable.__aexit__(*error)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def serves_once(result: Any) -> bool:
    """Its first reader uses it up: an awaitable, an iterator, an open file."""
    kind = type(result)
    return any(hasattr(kind, name) for name in ("__await__", "__next__", "__anext__"))


def serves_many(answer: Answer[Any]) -> bool:
    """May several callers have this answer?"""
    return not serves_once(answer.value)


def finished(call: Call, result: Any) -> Any:
    """Report that ``call`` returned ``result``, now or when it is awaited; returns what its caller gets."""
    if type(result) in HARMLESS or call.permit is None or not awaits(result):
        call.succeeded(result)
        return result
    call.key = None  # it is kept for nobody
    call.entered = True
    call.value = later(result, call, _pause(call.permit, call.clock))
    return call.value


def is_no_plain_success(result: Any) -> bool:
    """It is still to be awaited, or tells of a failure."""
    return (type(result) is not dict and awaits(result)) or failure_in(result) is not None


def told_of(permit: Permit, result: Any) -> Any:
    """:func:`finished` of a call that has nothing but its ``permit``."""
    report = _OfPermit(permit)
    if awaits(result):
        return later(result, report, _pause(permit, permit.reporter.clock))
    report.succeeded(result)
    return result


def _pause(permit: Permit, clock: Callable[[], float]) -> Callable[[], None]:
    """To be called when the caller goes on with it: from here until then the call waited for him, not for the tool."""
    returned_at = clock()
    return lambda: permit.paused(clock() - returned_at)


class _OfPermit:
    __slots__ = ("_permit",)

    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    def succeeded(self, result: Any) -> None:
        failure = failure_in(result)
        if failure is None:
            self._permit.success()
        else:
            self._permit.failure(text_in(result), classification=failure)

    def failed(self, error: BaseException) -> None:
        self._permit.failure(error)

    def not_made(self) -> None:
        self._permit.release()
