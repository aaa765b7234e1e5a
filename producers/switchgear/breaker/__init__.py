"""The breaker: one state machine that decides in every process and in the worker. It does no I/O and reads no clock."""

from __future__ import annotations

from switchgear.breaker.breaker import Breaker
from switchgear.breaker.states import IllegalTransitionError
from switchgear.breaker.values import (
    BreakerPermit,
    BreakerRejection,
    ProbeLease,
    Result,
    ResultKind,
    Transition,
    family_result_kind,
    result_kind,
)

__all__ = [
    "Breaker",
    "BreakerPermit",
    "BreakerRejection",
    "IllegalTransitionError",
    "ProbeLease",
    "Result",
    "ResultKind",
    "Transition",
    "family_result_kind",
    "result_kind",
]
