"""A conversation with a model, whatever its provider calls the parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import httpx
import tenacity

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


TRIES: Final = 6
LONGEST_WAIT_S: Final = 30.0


class PatientModel:
    """A model whose endpoint is asked again if it is busy or can't be reached.

    Args:
        model: What is behind it.
        first_wait_s: Before the second try. Each wait is twice the one before.
    """

    def __init__(self, model: Model, first_wait_s: float = 1.0) -> None:
        self._model = model
        self._again = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_exponential(multiplier=first_wait_s, max=LONGEST_WAIT_S),
            retry=tenacity.retry_if_exception(_is_passing),
            reraise=True,
        )

    async def turn(self, system: str, tools: list[dict[str, Any]], messages: list[Message]) -> Turn:
        """Return the model's next turn."""
        return await self._again(self._model.turn, system, tools, messages)


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)
