"""Items of a tool that is a generator, behind an AgentCircuitBreaker: the circuit is asked at the first, and told at the last.

An iteration that its reader leaves early, or by an exception of its own, says nothing of the tool.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from switchgear.guard.iteration import END, aiterated, iterated

if TYPE_CHECKING:
    from switchgear.guard.later import Report


def read(items: Generator[Any, Any, Any], enter: Callable[[], Report]) -> Generator[Any, Any, Any]:
    """``items``, with everything that passes both ways.

    Args:
        items: The tool's, not begun.
        enter: Asks the circuit, and raises where it is open.
    """
    return (yield from iterated(_Told(items, enter())))


def aread(items: AsyncGenerator[Any, Any], enter: Callable[[], Report]) -> AsyncGenerator[Any, Any]:
    """:func:`read` for async generators."""

    async def entered() -> _Told:
        return _Told(items, enter())

    return aiterated(entered)()


class _Told:
    __slots__ = ("_items", "_report")

    def __init__(self, items: Any, report: Report) -> None:
        self._items = items
        self._report = report

    def begin(self) -> Any:
        return self._items

    async def next(self, coming: Awaitable[Any]) -> Any:
        try:
            return await coming
        except StopAsyncIteration:
            return END

    def item(self, item: Any) -> None:
        """Nothing is measured."""

    def resumed(self) -> None:
        """As above."""

    def succeeded(self, result: Any) -> None:
        self._report.succeeded(result)

    def failed(self, error: BaseException, thrown: BaseException | None) -> None:
        self._report.failed(GeneratorExit() if error is thrown else error)
