"""Iteration: a generator's items to their reader, and whatever the reader sends or throws back to the tool.

An iteration that its reader leaves early, or by an exception of its own, is told apart from one that the tool ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final, Protocol

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
