"""The guard: two breakers decide about a call, its outcome is reported. The pieces under ``Switchgear``."""

from switchgear.guard.permit import Permit
from switchgear.guard.rejection import CircuitOpenError, Rejection

__all__ = ["CircuitOpenError", "Permit", "Rejection"]
