"""What a kind of fault consists of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos.schedule import Planned, Span
from tests.chaos.stage import Stage

Act = Callable[[Stage, Planned], Awaitable[str]]
"""Begins the fault, ends it, and returns a description of what happened."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault."""

    span: Span
    act: Act
