"""Later: a function that is no coroutine function returned something to await. How its call ended is known then, and told then.

A plain function behind a decorator, a lambda or a partial may do so. Its caller gets an awaitable that passes everything on to
the tool's own and reports its end; a future is handed back itself, and told of by a callback. Such results serve one caller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from inspect import CO_ITERABLE_COROUTINE
from types import GeneratorType
from typing import Any, Protocol


def awaits(result: Any) -> bool:
    """It is there to be awaited. What can also be iterated (a query, a cursor) is not: nobody knows how it will be used."""
    kind = type(result)
    if hasattr(kind, "__await__"):
        return not hasattr(kind, "__aiter__")
    return kind is GeneratorType and bool(result.gi_code.co_flags & CO_ITERABLE_COROUTINE)


class Report(Protocol):
    """Told once how a call ended; a :class:`~switchgear.guard.call.Call` is one."""

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
    kind = LaterContext if hasattr(type(awaitable), "__aenter__") else Later
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


class Later(Coroutine[Any, Any, Any]):
    """A coroutine for everybody who wants one (tasks, ``asyncio.run``); its other attributes are those of what it stands for."""

    __slots__ = ("__weakref__", "_awaitable", "_end", "_steps")

    def __init__(self, awaitable: Any, report: Report, begins: Callable[[], object] | None = None) -> None:
        self._awaitable = awaitable
        self._end = _End(report, begins)
        self._steps: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._awaitable, name)

    def __await__(self) -> Later:
        return self

    def __iter__(self) -> Later:
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


class LaterContext(Later):
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
