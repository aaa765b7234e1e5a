"""What a function returned that stands in for a generator, as something to iterate: a text is one item, no letters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from typing import Any

from switchgear_schemas.errors import SwitchgearError


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
