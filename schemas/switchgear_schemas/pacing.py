"""How fast the calls of a tool may go: a stated limit as text, and what a circuit's record says of it."""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from switchgear_schemas.enums import MAX_CREDENTIAL_LENGTH, PaceMode
from switchgear_schemas.wire_record import Instant

DEMAND_S: Final = 5
"""Seconds in which a record counts the calls that were asked for."""
LIMIT_PATTERN: Final = r"^([1-9][0-9]{0,8})/([1-9][0-9]{0,3})?(s|min|h)$"
_UNITS: Final = {"s": 1.0, "min": 60.0, "h": 3_600.0}
LONGEST_PERIOD_S: Final = 86_400.0
"""A longer period is none to wait for."""

Rate = Annotated[float, Meta(gt=0)]
Credential = Annotated[str, Meta(max_length=MAX_CREDENTIAL_LENGTH)]


class StatedLimit(NamedTuple):
    """So many calls in a period."""

    calls: int
    period_s: float

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.period_s


def read_limit(text: str) -> StatedLimit:
    """Return the limit that a text such as ``100/min`` states.

    Raises:
        ValueError: It is none.
    """
    found = re.fullmatch(LIMIT_PATTERN, text)
    if found is not None:
        calls, count, unit = found.groups(default="1")
        period_s = int(count) * _UNITS[unit]
        if period_s <= LONGEST_PERIOD_S:
            return StatedLimit(int(calls), period_s)
    raise ValueError(
        "takes calls and a period of a day at most, such as 100/min, 10/s, 5/10s or 1000/h; the units are s, min and h"
    )


def rate_in_words(rate: float, period_s: float) -> str:
    """Return a rate in calls a second in words, such as ``100 calls per 60 s``."""
    return f"{rate * period_s:.4g} calls per {period_s:.4g} s"


class RateLimit(msgspec.Struct, frozen=True):
    """A limit of a tool: of the calls with one credential, or of all the others. Processes divide what is granted."""

    credential: Annotated[
        Credential, Meta(description="Salted hash of the credential whose calls it limits. Empty: all others.")
    ]
    rate: Annotated[Rate, Meta(description="Calls a second that the tool takes: learned, or stated by the policy.")]
    granted: Annotated[
        Rate,
        Meta(description="Calls a second that the processes divide now. Below the rate after more calls than that."),
    ]
    period_s: Annotated[Rate, Meta(description="Seconds in which the rate is kept.")]
    asked: Annotated[
        int, Meta(ge=0, description=f"Calls that processes asked for in the {DEMAND_S} seconds before until.")
    ]
    until: Annotated[Instant, Meta(description="The end of these seconds, by the broker's clock.")]
    limited: Annotated[int, Meta(ge=0, description="Calls that the tool refused in these seconds, as too many.")] = 0
    refused: Annotated[
        int, Meta(ge=0, description="Calls that were not made in these seconds, because their turn came too late.")
    ] = 0
    waited: Annotated[int, Meta(ge=0, description="Calls made in these seconds that had waited for their turn.")] = 0
    waited_s: Annotated[float, Meta(ge=0, description="How long those waited in all, in seconds.")] = 0.0
    paused_until: Annotated[
        Instant | None, Meta(description="Until when the tool asked to wait. Null: it takes calls.")
    ] = None


class Pace(msgspec.Struct, frozen=True):
    """How the calls of a tool are paced."""

    mode: Annotated[PaceMode, Meta(description="learn: the limits are shown. enforce: processes keep them.")]
    wait_s: Annotated[float, Meta(ge=0, description="Longest wait of a call for its turn, in seconds.")]
    limits: tuple[RateLimit, ...] = ()
