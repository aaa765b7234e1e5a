"""A conversation with a model, whatever its provider calls the parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.bench.benefit.tokens import Spent


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model wants."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What the user says."""

    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model says, and what it has cost. Without calls it is done for now."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True, slots=True)
class Result:
    """What a call came to: a result, an error, or a refusal."""

    call_id: str
    text: str


Message = Said | Turn | Result


class Model(Protocol):
    """A model behind an endpoint."""

    async def turn(self, system: str, tools: list[dict[str, Any]], messages: list[Message]) -> Turn:
        """Return the model's next turn.

        Args:
            system: The system prompt.
            tools: Each with a ``name``, a ``description`` and the JSON schema of its ``parameters``.
            messages: The conversation so far.

        Raises:
            httpx.HTTPError: The endpoint didn't answer, or with an error.
        """
        ...
