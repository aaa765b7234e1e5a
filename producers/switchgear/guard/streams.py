"""Guarded generators: the circuit is asked at the first item, and told how the whole iteration ended.

Exhausted is a success, an exception a failure. A stream that its reader leaves early (``break``, ``close()``, or it is simply
forgotten and collected) is cancelled: it says nothing of the tool, and its permit is given back. So is one that its reader's own
exception goes through, as of the body of a ``with`` that ``contextlib`` made a generator of. What counts as the call's
time is the tool's, not what its reader does between two items.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from switchgear.guard.pipeline import Call, aprepare, check_timed, prepare
from switchgear.guard.time_limit import within
from switchgear.sessions.usage import NOTHING
from switchgear_schemas.errors import SwitchgearError

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


def items_of(returned: Any) -> Any:
    """A generator as it is, for all that passes both ways; anything else item by item.

    Raises:
        SwitchgearError: there is nothing to iterate.
    """
    if isinstance(returned, Generator):
        return returned
    if isinstance(returned, (str, bytes)):
        return (returned,)
    if isinstance(returned, Iterable):
        return returned
    raise SwitchgearError(f"A fallback of a generator returned {returned!r:.100}, which has no items.")


def aitems_of(returned: Any) -> AsyncGenerator[Any, Any]:
    """The same for an async generator; what has items at once is iterated too."""
    if isinstance(returned, AsyncGenerator):
        return returned
    return _aiterated(returned)


async def _aiterated(returned: Any) -> AsyncGenerator[Any, None]:
    if isinstance(returned, AsyncIterable):
        async for item in returned:
            yield item
        return
    for item in items_of(returned):
        yield item


END: Final = object()
"""In place of an item: there are no more."""


class Iteration(Protocol):
    """One iteration, told of what happens to it. It is made when its reader asks for the first item."""

    def begin(self) -> Any:
        """The tool's items."""

    def item(self, item: Any) -> None:
        """An item goes to the reader."""

    def resumed(self) -> None:
        """The reader wants the next one."""

    def succeeded(self, result: Any) -> None:
        """The tool had no more to give."""

    def failed(self, error: BaseException, thrown: BaseException | None) -> None:
        """It ended with ``error``; ``thrown`` is what the reader had thrown in."""


class AsyncIteration(Iteration, Protocol):
    """The same of an async generator."""

    async def next(self, coming: Awaitable[Any]) -> Any:
        """The item that is ``coming``, or :data:`END`."""


def iterated(one: Iteration) -> Generator[Any, Any, Any]:
    """The items of ``one``. Values, exceptions and the result pass both ways."""
    thrown: BaseException | None = None
    try:
        items = one.begin()
        item = next(items)
        while True:
            one.item(item)
            sent, thrown = None, None
            try:
                sent = yield item
            except GeneratorExit:
                items.close()
                raise
            except BaseException as error:  # noqa: BLE001 - the tool's to handle
                thrown = error
            one.resumed()
            item = items.send(sent) if thrown is None else items.throw(thrown)
    except StopIteration as end:
        one.succeeded(end.value)
        return end.value
    except BaseException as error:
        one.failed(error, thrown)
        raise


def aiterated(enter: Callable[..., Awaitable[AsyncIteration]]) -> Callable[..., AsyncGenerator[Any, Any]]:
    """An async generator function of the items of what ``enter`` makes of its arguments: an async generator can't hand over to another."""

    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        one = await enter(*args, **kwargs)
        thrown: BaseException | None = None
        try:
            items = one.begin()
            item = await one.next(items.__anext__())
            while item is not END:
                one.item(item)
                sent, thrown = None, None
                try:
                    sent = yield item
                except GeneratorExit:
                    await items.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - the tool's to handle
                    thrown = error
                one.resumed()
                item = await one.next(items.asend(sent) if thrown is None else items.athrow(thrown))
        except BaseException as error:
            one.failed(error, thrown)
            raise
        one.succeeded(None)

    return stream
