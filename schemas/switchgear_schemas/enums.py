"""The enumerations of the contracts, and their limits. A guarded call needs them without importing pydantic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal

Status = Literal["success", "error", "timeout", "cancelled", "rejected", "overdue"]
"""How a call ended. ``overdue`` is no call: it says that one still runs which takes too long. It is never stored."""
ErrorClass = Literal[
    "transport", "timeout", "server", "rate_limited", "tool", "invalid_input", "auth", "cancelled", "policy", "unknown"
]
ServedBy = Literal["call", "fallback", "cache", "none"]
Evidence = Literal["full", "status_only"]
"""What the source of an event could tell about a failure. ``status_only``: it hides the kind of error."""

CircuitState = Literal["closed", "open", "half_open", "forced_open", "disabled", "metrics_only"]
REFUSING: Final = ("open", "forced_open")
"""States in which a circuit refuses all calls but probes."""
BROKEN: Final = (*REFUSING, "half_open")
"""States in which a circuit refuses calls, some or all of them."""
Scope = Literal["tool", "user", "session", "tenant"]
"""What a policy keeps a circuit for."""
CircuitScope = Literal["tool", "user", "session", "tenant", "target", "family"]
"""What a circuit is kept for."""
Mode = Literal["enforce", "metrics_only", "forced_open", "disabled"]
PaceMode = Literal["off", "learn", "enforce"]
"""Whether the rate that a tool takes is ignored, learned and shown, or kept."""

Verb = Literal["set_policy", "force_open", "close", "reset", "disable", "metrics_only", "auto"]

DEFAULT_COUNTED: Final[frozenset[ErrorClass]] = frozenset({"transport", "timeout", "server", "rate_limited", "unknown"})
"""Failures that count by default. A tool that answers "bad argument" works. A cancelled or denied call says nothing about its health."""
CALLER_ERRORS: Final[frozenset[ErrorClass]] = frozenset({"tool", "invalid_input", "auth", "policy"})
"""Failures that do not count by default: the tool answered, or the call did not reach it because of its caller.

Together with ``cancelled`` these are the classes that are not in :data:`DEFAULT_COUNTED`.
"""
DEFAULT_MAX_WAIT_S: Final = 600.0
SHORTEST_WAIT_S: Final = 1e-9
LONGEST_WAIT_S: Final = 31_536_000.0
"""A year. An instant that far from now still has a valid date."""
MOST_CALLS: Final = 10**9
"""The limit of every threshold that counts calls."""
MOST_PROBES: Final = 1000
"""Probes in flight."""
MOST_STEPS: Final = 20
"""Steps of a ramp."""

MOST_MS: Final = 31_536_000_000
"""A year: the longest call."""
MOST_TOKENS: Final = 10**9
"""Model tokens of one call, of each of the three kinds. Sums over six billion such calls fit 64 bits."""
MOST_BYTES: Final = 2**40
"""The size of an input or an output, in bytes or characters."""
MOST_USD: Final = 10**6
"""The cost of one call."""

MAX_EVENT_BYTES: Final = 1_048_576
"""Larger messages go to the dead letters. This is Kafka's default limit of a message."""
MAX_LETTER_BYTES: Final = 5 * MAX_EVENT_BYTES
"""``max.message.bytes`` of the dead-letter topic. Every message fits that the executions topic takes without compression."""
MAX_NAME_LENGTH: Final = 256
"""Characters of a tool name. It is a Kafka key, a circuit id and part of a primary key."""
TARGET_ERROR: Final = "TargetError"
"""``error_type`` of an outage that a tool reported of the call's target. The tool answered, so it says nothing about the tool's server."""
MAX_CREDENTIAL_LENGTH: Final = 64
"""Characters of a credential's hash."""
EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC)
"""``recorded_at`` is in ``[EARLIEST, LATEST)``. Anything else comes from a broken clock. ClickHouse's DateTime overflows in 2106."""


def status_of(error_class: ErrorClass) -> Status:
    """Return the status of a call that failed with an error of this class."""
    if error_class == "cancelled":
        return "cancelled"
    return "timeout" if error_class == "timeout" else "error"


def normal_status(status: Status, error_class: ErrorClass | None) -> Status:
    """Return the status under which a call is stored and counted.

    Emitters that do not know the status ``cancelled`` send ``error`` or ``timeout`` with the class ``cancelled``.
    """
    return "cancelled" if error_class == "cancelled" and status in ("error", "timeout") else status
