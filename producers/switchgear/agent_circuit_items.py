"""Items of a tool that is a generator, behind an AgentCircuitBreaker: the circuit is asked at the first, and told at the last.

An iteration that its reader leaves early, or by an exception of its own, says nothing of the tool.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from switchgear.guard.later import Report


def read(items: Generator[Any, Any, Any], enter: Callable[[], Report]) -> Generator[Any, Any, Any]:
    """``items``, with everything that passes both ways.

    Args:
        items: The tool's, not begun.
        enter: Asks the circuit, and raises where it is open.
    """
    report = enter()
    thrown: BaseException | None = None
    try:
        item = next(items)
        while True:
            sent, thrown = None, None
            try:
                sent = yield item
            except GeneratorExit:
                items.close()
                raise
            except BaseException as error:  # noqa: BLE001 - the tool's to handle
                thrown = error
            item = items.send(sent) if thrown is None else items.throw(thrown)
    except StopIteration as end:
        report.succeeded(end.value)
        return end.value
    except BaseException as error:
        report.failed(GeneratorExit() if error is thrown else error)
        raise


async def aread(items: AsyncGenerator[Any, Any], enter: Callable[[], Report]) -> AsyncGenerator[Any, Any]:
    """:func:`read` for async generators."""
    report = enter()
    thrown: BaseException | None = None
    try:
        item = await anext(items)
        while True:
            sent, thrown = None, None
            try:
                sent = yield item
            except GeneratorExit:
                await items.aclose()
                raise
            except BaseException as error:  # noqa: BLE001 - the tool's to handle
                thrown = error
            item = await (items.asend(sent) if thrown is None else items.athrow(thrown))
    except StopAsyncIteration:
        report.succeeded(None)
    except BaseException as error:
        report.failed(GeneratorExit() if error is thrown else error)
        raise
