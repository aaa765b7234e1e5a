"""Usage: what one call cost in tokens and money, as the tool or an extractor tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from switchgear_schemas.errors import SwitchgearError


@dataclass(frozen=True, slots=True)
class Usage:
    """Work of one call: tokens of the model, never cache reads (a cap that counts them is a timer), and US dollars."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All of them: what a session's budget and the rule ``wasted_tokens`` count."""
        return self.input_tokens + self.output_tokens + self.cache_creation_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.cost_usd + other.cost_usd,
        )


UsageExtractor = Callable[[Any], Usage | int | None]
"""From a call's result to what it cost; a plain number is tokens of output, None is nothing known."""

NOTHING = Usage()


def usage_of(told: Usage | int | None) -> Usage:
    """What an extractor or a tool told, as a Usage.

    Raises:
        SwitchgearError: it is neither a Usage nor a whole number, or less than nothing.
    """
    if told is None:
        return NOTHING
    if isinstance(told, int) and not isinstance(told, bool):
        told = Usage(output_tokens=told)
    if not isinstance(told, Usage):
        raise SwitchgearError(f"A usage is a Usage or a number of tokens, not {type(told).__name__}.")
    if min(told.input_tokens, told.output_tokens, told.cache_creation_tokens, told.cost_usd) < 0:
        raise SwitchgearError(f"A usage can't be less than nothing: {told}.")
    return told
