"""Guard generators: the circuit is asked at the first item, and the outcome is that of the whole iteration.

A stream that is read to its end is a success, an exception a failure. If its reader leaves it early, or an exception of the
reader's own goes through it (as in a ``with`` block of ``contextlib.contextmanager``), the call counts as cancelled. What the
reader does between two items is not part of the duration.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

from switchgear.guard.call import Call
from switchgear.guard.pipeline import aprepare, check_timed, prepare
from switchgear.guard.time_limit import within
from switchgear.sessions.usage import NOTHING
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.call import GuardPlan

_END: Final = object()
"""In place of an item: there are no more."""


def guarded_stream(plan: GuardPlan, function: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
    """Return the generator function ``function`` behind its circuit. Values, exceptions and the result pass both ways."""

    def stream(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = Call(plan, "generator", function, args, kwargs)
        prepare(call)
        if call.permit is None:
            return (yield from _items(call.function(*call.args, **call.kwargs)))
        reported = _ReportedStream(call)
        thrown: BaseException | None = None
        try:
            items = reported.start()
            item = next(items)
            while True:
                reported.item(item)
                sent, thrown = None, None
                try:
                    sent = yield item
                except GeneratorExit:
                    items.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - the tool handles it
                    thrown = error
                reported.resume()
                item = items.send(sent) if thrown is None else items.throw(thrown)
        except StopIteration as end:
            reported.succeeded()
            return end.value
        except BaseException as error:
            reported.failed(error, thrown)
            raise

    return stream


def guarded_astream(plan: GuardPlan, function: Callable[..., Any]) -> Callable[..., AsyncGenerator[Any, Any]]:
    """Return the async generator function ``function`` behind its circuit. A time limit is for each item."""

    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = Call(plan, "async_generator", function, args, kwargs)
        await aprepare(call)
        check_timed(call)
        reported = _ReportedStream(call)
        thrown: BaseException | None = None
        try:
            items = reported.start() if call.permit is not None else _async_items(reported.start())
            item = await reported.next(items.__anext__())
            while item is not _END:
                reported.item(item)
                sent, thrown = None, None
                try:
                    sent = yield item
                except GeneratorExit:
                    await items.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - the tool handles it
                    thrown = error
                reported.resume()
                item = await reported.next(items.asend(sent) if thrown is None else items.athrow(thrown))
        except BaseException as error:
            reported.failed(error, thrown)
            raise
        reported.succeeded()

    return stream


class _ReportedStream:
    """One iteration: its usage, its duration and its end. A function that stands in reports nothing."""

    __slots__ = ("_call", "_left_at", "_usage")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._usage = NOTHING
        self._left_at: float | None = None
        """When the reader got the last item; None while the tool makes the next one."""

    def start(self) -> Any:
        """Return the items."""
        items = self._call.function(*self._call.args, **self._call.kwargs)
        self._call.entered = True
        return items

    async def next(self, coming: Awaitable[Any]) -> Any:
        """Return the item that is ``coming``, within the time limit, or :data:`_END`."""
        call = self._call
        limit = None if call.permit is None else call.acting.timeout
        try:
            return await (coming if limit is None else within(call.tool, limit, coming))
        except StopAsyncIteration:
            return _END

    def item(self, item: Any) -> None:
        """Add the usage of an item that goes to the reader."""
        call = self._call
        if call.permit is None:
            return
        self._left_at = call.clock()
        if call.acting.usage is not None:
            self._usage += call.acting.used(item)

    def resume(self) -> None:
        """The reader wants the next item."""
        left_at, self._left_at = self._left_at, None
        if left_at is not None:
            self._call.paused(self._call.clock() - left_at)

    def succeeded(self) -> None:
        """Report that there are no more items."""
        if self._call.permit is not None:
            self._call.finished(self._usage)

    def failed(self, error: BaseException, thrown: BaseException | None) -> None:
        """Report an error of the tool; as cancelled if it, or its cause, was ``thrown`` in by the reader."""
        if isinstance(error, GeneratorExit):
            self.resume()
        if thrown is not None and thrown in (error, error.__cause__):
            self._call.left(error, self._usage)
        else:
            self._call.failed(error, self._usage)


def _items(returned: Any) -> Any:
    """Return what to iterate: a generator as it is, so that everything passes both ways, and a text as one item.

    Raises:
        SwitchgearError: There is nothing to iterate.
    """
    if isinstance(returned, (str, bytes)):
        return (returned,)
    if isinstance(returned, Iterable):
        return returned
    raise SwitchgearError(f"A fallback of a generator returned {returned!r:.100}, which has no items.")


async def _iterated(returned: Any) -> AsyncGenerator[Any, None]:
    if isinstance(returned, AsyncIterable):
        async for item in returned:
            yield item
        return
    for item in _items(returned):
        yield item


def _async_items(returned: Any) -> AsyncGenerator[Any, Any]:
    return returned if isinstance(returned, AsyncGenerator) else _iterated(returned)
