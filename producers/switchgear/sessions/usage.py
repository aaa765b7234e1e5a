"""Usage: what one call cost in tokens and money, as the tool or an extractor tells it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from switchgear_schemas.errors import SwitchgearError

MOST: Final = 2**53
"""Up to here every reader of JSON keeps whole numbers, and sums of many fit what an event may carry."""


class ReportError(SwitchgearError, ValueError):
    """What was told of a call is impossible; the message names the field. The caller's mistake, never the tool's failure."""


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
    """What an extractor or a tool told, as a Usage of whole, finite numbers from 0 on; None is nothing.

    Raises:
        ReportError: it is neither a Usage nor a number, or one of its numbers is impossible.
    """
    if told is None or told is NOTHING:
        return NOTHING
    if isinstance(told, Usage):
        return usage_from(told.input_tokens, told.output_tokens, told.cache_creation_tokens, told.cost_usd)
    if isinstance(told, (str, bool)) or not hasattr(told, "__float__"):
        raise ReportError(f"A usage is a Usage or a number of tokens, not {type(told).__name__}.")
    return Usage(output_tokens=whole("output_tokens", told))


def usage_from(input_tokens: object, output_tokens: object, cache_creation_tokens: object, cost_usd: object) -> Usage:
    """The numbers as a Usage, each checked.

    Raises:
        ReportError: naming the one that is impossible.
    """
    if not (input_tokens or output_tokens or cache_creation_tokens or cost_usd):
        return NOTHING
    return Usage(
        whole("input_tokens", input_tokens),
        whole("output_tokens", output_tokens),
        whole("cache_creation_tokens", cache_creation_tokens),
        amount("cost_usd", cost_usd),
    )


def whole(field: str, value: object) -> int:
    """``value`` as a whole number: an estimate such as 1.5 is rounded up, None is 0.

    Raises:
        ReportError: it is no finite number from 0 on.
    """
    if type(value) is int and 0 <= value <= MOST:
        return value
    return math.ceil(amount(field, value))


def amount(field: str, value: object) -> float:
    """``value`` as a finite number from 0 on; None is 0.

    Raises:
        ReportError: it is none.
    """
    if value is None:
        return 0.0
    if isinstance(value, (str, bytes, bool)):
        raise ReportError(f"{field} is a number, not {value!r:.100}.")
    try:
        number = float(value)  # type: ignore[arg-type]  # NumPy's and Decimal's numbers too
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise ReportError(f"{field} is a number, not {type(value).__name__}.") from None
    if number < 0:
        raise ReportError(f"{field} can't be less than nothing: {number:g}.")
    if not number <= MOST:  # also not a number at all
        raise ReportError(f"{field} is a finite number up to 2**53, not {number}.")
    return number
