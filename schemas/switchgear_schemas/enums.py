"""The words of the contracts and their limits, without the models: what a guarded call needs, at no cost to its import.

The models are pydantic's, which takes longer to import than all the rest of the SDK together (70 of 130 ms, measured).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal

Status = Literal["success", "error", "timeout", "cancelled", "rejected"]
ErrorClass = Literal[
    "transport", "timeout", "server", "rate_limited", "tool", "invalid_input", "auth", "cancelled", "policy", "unknown"
]
ServedBy = Literal["call", "fallback", "cache", "none"]

CircuitState = Literal["closed", "open", "half_open", "forced_open", "disabled", "metrics_only"]
Scope = Literal["tool", "user", "session"]
Mode = Literal["enforce", "metrics_only", "forced_open", "disabled"]

Verb = Literal["set_policy", "force_open", "close", "reset", "disable", "metrics_only", "auto"]

DEFAULT_COUNTED: Final[frozenset[ErrorClass]] = frozenset({"transport", "timeout", "server", "rate_limited", "unknown"})
"""A tool that answered "bad argument" works; a cancelled, denied or unauthorised call says nothing of its health."""
CALLER_ERRORS: Final[frozenset[ErrorClass]] = frozenset({"tool", "invalid_input", "auth", "policy"})
"""Errors that say nothing of the tool's health by default: it answered, or was not reached because of its caller.

Together with ``cancelled`` these are the classes that are not in :data:`DEFAULT_COUNTED`.
"""
DEFAULT_MAX_WAIT_S: Final = 600.0
SHORTEST_WAIT_S: Final = 1e-9
LONGEST_WAIT_S: Final = 31_536_000.0
"""A year: an instant that far from now still has a date."""
MOST_CALLS: Final = 10**9
"""The highest of every threshold that counts calls."""
MOST_PROBES: Final = 1000
"""Probes in flight."""

MAX_EVENT_BYTES: Final = 1_048_576
"""Larger messages go to the dead letters: Kafka's own default limit of a message."""
MAX_NAME_LENGTH: Final = 256
"""Characters of a tool name: it is a Kafka key, a circuit id and part of a primary key."""
EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC)
"""``recorded_at`` lies in ``[EARLIEST, LATEST)``: anything else is a broken clock, and past 2106 a DateTime overflows."""


def status_of(error_class: ErrorClass) -> Status:
    """How a call ended that failed with an error of this class."""
    if error_class == "cancelled":
        return "cancelled"
    return "timeout" if error_class == "timeout" else "error"


def normal_status(status: Status, error_class: ErrorClass | None) -> Status:
    """The status under which a call is stored and counted.

    Emitters that do not know the status ``cancelled`` send ``error`` or ``timeout`` with the class ``cancelled``.
    """
    return "cancelled" if error_class == "cancelled" and status in ("error", "timeout") else status
