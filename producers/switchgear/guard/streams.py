"""Guard generators: the circuit is asked at the first item, and the outcome is that of the whole iteration.

A stream that is read to its end is a success, an exception a failure. If its reader leaves it early, or an exception of the
reader's own goes through it (as in a ``with`` block of ``contextlib.contextmanager``), the call counts as cancelled. If the
reader is cancelled while it waits for an item that is overdue, it is a timeout. What the reader does between two items is not
part of the duration.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any

from switchgear.guard.call import Call
from switchgear.guard.pipeline import aprepare, prepare, time_limit
from switchgear.guard.time_limit import within
from switchgear.usage import NOTHING

if TYPE_CHECKING:
    from switchgear.guard.call import GuardPlan


def guarded_stream(plan: GuardPlan, function: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
    """Return the generator function ``function`` behind its circuit. Values, exceptions and the result pass both ways."""

    def stream(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = Call(plan, "generator", function, args, kwargs)
        prepare(call)
        if call.permit is None:  # a function stands in
            return (yield from call.make())
        reported = _ReportedStream(call)
        try:
            items = call.make()
            item = next(items)
            while True:
                reported.item(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    items.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - the tool handles it
                    reported.resume(error)
                    item = items.throw(error)
                else:
                    reported.resume()
                    item = items.send(sent)
        except StopIteration as end:
            reported.succeeded()
            return end.value
        except BaseException as error:
            reported.failed(error)
            raise

    return stream


def guarded_astream(plan: GuardPlan, function: Callable[..., Any]) -> Callable[..., AsyncGenerator[Any, Any]]:
    """Return the async generator function ``function`` behind its circuit. A time limit is for each item."""

    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = Call(plan, "async_generator", function, args, kwargs)
        await aprepare(call)
        reported = _ReportedStream(call)
        limit = time_limit(call)
        try:
            items = call.make()
            coming = items.__anext__()
            while True:
                item = await (coming if limit is None else within(call.tool, limit, coming))
                reported.item(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    await items.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - the tool handles it
                    reported.resume(error)
                    coming = items.athrow(error)
                else:
                    reported.resume()
                    coming = items.asend(sent)
        except StopAsyncIteration:
            reported.succeeded()
        except BaseException as error:
            reported.failed(error)
            raise

    return stream


class _ReportedStream:
    """One iteration: its usage, its duration and its end. A function that stands in reports nothing."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._usage = NOTHING
        self._asked_at = call.clock()
        """When the reader asked for the item that the tool makes."""
        self._left_at: float | None = None
        """When the reader got the last item; None while the tool makes the next one."""
        self._thrown: BaseException | None = None
        """What the reader threw in after the last item."""

    def item(self, item: Any) -> None:
        """Add the usage of an item that goes to the reader."""
        self._left_at = self._call.clock()
        self._call.rests()
        if self._call.permit is not None and self._call.acting.options.usage is not None:
            self._usage += self._call.acting.used(item)

    def resume(self, thrown: BaseException | None = None) -> None:
        """The reader wants the next item, or has ``thrown`` an error in."""
        left_at, self._left_at, self._thrown = self._left_at, None, thrown
        self._asked_at = self._call.clock()
        if left_at is not None:
            self._call.paused(self._asked_at - left_at)

    def succeeded(self) -> None:
        """Report that there are no more items."""
        self._call.finished(self._usage)

    def failed(self, error: BaseException) -> None:
        """Report an error of the tool; as cancelled if the reader threw it in, or its cause."""
        if isinstance(error, GeneratorExit):
            self.resume()
        if self._thrown is not None and self._thrown in (error, error.__cause__):
            self._call.left(error, self._usage)
        else:
            self._call.failed(error, self._usage, (self._call.clock() - self._asked_at) * 1000)
