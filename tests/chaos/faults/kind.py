"""A kind of fault: how long it lasts, and what is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import Stage

Act = Callable[[Stage, Planned], Awaitable[str]]
"""Does it, undoes it, and says what came of it."""


@dataclass(frozen=True)
class Kind:
    """One kind."""

    span: Span
    act: Act
