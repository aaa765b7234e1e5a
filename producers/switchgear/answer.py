"""Answer: a call's result, and what served it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[R_co]):
    """What ``gear.answer`` and ``gear.aanswer`` return: the value, and where it came from."""

    value: R_co
    tool: str
    """The tool that answered: the one asked for, a fallback, or the name of a fallback function."""
    served_by: Literal["call", "fallback", "cache"] = "call"
    stale: bool = False
    """The value is from the cache, and older than the policy's ``ttl_s``."""
    age_s: float = 0.0
    """Seconds since the value was fetched; 0 where it was just now."""
