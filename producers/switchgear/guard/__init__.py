"""Decide about calls, make them, and report their outcomes."""

from switchgear.guard.options import GuardOptions, OptionError
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import CircuitOpenError, DuplicateCallError, Rejection, SessionExhaustedError
from switchgear.guard.time_limit import CallTimeoutError, ThreadsBusyError

__all__ = [
    "CallTimeoutError",
    "CircuitOpenError",
    "DuplicateCallError",
    "GuardOptions",
    "OptionError",
    "Permit",
    "Rejection",
    "SessionExhaustedError",
    "ThreadsBusyError",
]
