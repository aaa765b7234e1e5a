"""What a call costs in tokens and money."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from switchgear_schemas.enums import MOST_TOKENS, MOST_USD
from switchgear_schemas.errors import SwitchgearError


class ReportError(SwitchgearError, ValueError):
    """A report of a call has an impossible value. It is a mistake of the caller, not a failure of the tool."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call cost: tokens of the model, and US dollars.

    Leave cache reads out: a budget that counts them runs out with time, not with work.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All tokens. A session's budget and the rule ``wasted_tokens`` count them."""
        return self.input_tokens + self.output_tokens + self.cache_creation_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.cost_usd + other.cost_usd,
        )


UsageExtractor = Callable[[Any], Usage | int | None]
"""Takes a call's result, or the exception that it raised, and returns what it cost.

A plain number is output tokens, None means unknown.
"""

NOTHING = Usage()


def usage_of(reported: Usage | int | None) -> Usage:
    """Return what an extractor or a tool reported as a checked Usage. None means no usage.

    Raises:
        ReportError: It is neither a Usage nor a number, or one of its numbers is impossible.
    """
    if reported is None or reported is NOTHING:
        return NOTHING
    if isinstance(reported, Usage):
        return usage_from(
            reported.input_tokens, reported.output_tokens, reported.cache_creation_tokens, reported.cost_usd
        )
    return Usage(output_tokens=whole("output_tokens", reported, MOST_TOKENS))


def usage_from(input_tokens: object, output_tokens: object, cache_creation_tokens: object, cost_usd: object) -> Usage:
    """Return the numbers as a checked Usage."""
    if not (input_tokens or output_tokens or cache_creation_tokens or cost_usd):
        return NOTHING
    return Usage(
        whole("input_tokens", input_tokens, MOST_TOKENS),
        whole("output_tokens", output_tokens, MOST_TOKENS),
        whole("cache_creation_tokens", cache_creation_tokens, MOST_TOKENS),
        amount("cost_usd", cost_usd, MOST_USD),
    )


def of_one_call(usages: Iterable[Usage]) -> Usage:
    """Return the sum of what one call used, cut at what an event may have."""
    found = sum(usages, NOTHING)
    return Usage(
        min(found.input_tokens, MOST_TOKENS),
        min(found.output_tokens, MOST_TOKENS),
        min(found.cache_creation_tokens, MOST_TOKENS),
        min(found.cost_usd, float(MOST_USD)),
    )


def whole(field: str, value: object, most: int) -> int:
    """Return ``value`` as a whole number. An estimate such as 1.5 is rounded up, None is 0."""
    if type(value) is int and 0 <= value <= most:
        return value
    return math.ceil(amount(field, value, most))


def amount(field: str, value: object, most: int) -> float:
    """Return ``value`` as a finite number. None is 0.

    Raises:
        ReportError: It is not a number from 0 to ``most``.
    """
    if value is None:
        return 0.0
    try:
        number = -1.0 if isinstance(value, (str, bytes, bool)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):  # not a number, or one of too many digits
        number = -1.0
    if not 0 <= number <= most:  # NaN isn't
        raise ReportError(f"{field} must be a number from 0 to {most:,}, not {value!r:.100}.")
    return number
