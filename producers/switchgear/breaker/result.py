"""Result: what a finished call was, and how an event's status and error class become an outcome."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec

from switchgear_schemas.words import ErrorClass, Status

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy

ANSWERED: Final[frozenset[ErrorClass]] = frozenset({"tool", "invalid_input"})
"""Errors in which the tool itself answered: where they do not count as failures they are proof that it works."""


class Outcome(IntEnum):
    """What a call says about the tool's health."""

    SUCCESS = 0
    FAILURE = 1
    IGNORED = 2
    """Neither: cancelled, denied, unauthorised, ignored by a rule, or of a class that the policy does not count."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """A finished call, as a breaker counts it.

    Attributes:
        outcome: Whether it counts as success, as failure or not at all.
        duration_ms: How long it took, in milliseconds.
        tokens: Work tokens of the call: input, output and cache creation, never cache reads.
        reporter: ``emitter_id`` of the process that called; empty where it is not known.
        retry_after_s: Wait that a rate-limited tool asked for, in seconds.
    """

    outcome: Outcome = Outcome.SUCCESS
    duration_ms: float = 0.0
    tokens: int = 0
    reporter: str = ""
    retry_after_s: float | None = None


def outcome_of(status: Status, error_class: ErrorClass | None, policy: BreakerPolicy) -> Outcome:
    """Map an event's status and error class to the outcome that ``policy`` makes of it.

    A cancelled call is of class ``cancelled``, whatever class it names. A timeout without a class is of class ``timeout``,
    an error without one of class ``unknown``. A class in ``counted_error_classes`` is a failure. Of the others, those in which the tool answered (``tool``,
    ``invalid_input``) are successes, since the tool works: three answers "bad URL" in a row are no reason to close a
    healthy server to everybody (NousResearch/hermes-agent#11113). The rest is ignored; so is a success of class ``policy``,
    which its caller's rule takes out.

    Args:
        status: How the call ended; ``rejected`` was never made and is ignored.
        error_class: What kind of failure it was, where it was one.
        policy: Whose ``counted_error_classes`` decides.
    """
    if status == "success":
        return Outcome.IGNORED if error_class == "policy" else Outcome.SUCCESS
    if status == "rejected":
        return Outcome.IGNORED
    kind: ErrorClass = error_class or ("timeout" if status == "timeout" else "unknown")
    if status == "cancelled":
        kind = "cancelled"
    if kind in policy.counted_error_classes:
        return Outcome.FAILURE
    return Outcome.SUCCESS if kind in ANSWERED else Outcome.IGNORED
