"""Switchgear: circuit breakers for the tools of AI agents, shared by the fleet.

from switchgear import Switchgear

gear = Switchgear("localhost:9092", service="planner")

@gear.guard("mcp:weather:get_forecast", fallback="mcp:backup-weather:get_forecast")
async def get_forecast(city: str) -> dict: ...
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from switchgear.arguments import OptionError
from switchgear.classify import IGNORE, Classification, classify, classify_result, outage_in_text
from switchgear.client import Switchgear
from switchgear.emitter import shutdown as _shutdown  # noqa: F401 - its atexit handler runs after those of the program
from switchgear.emitter.event import Event
from switchgear.emitter.status import EmitterStatus, Receipt
from switchgear.follower.status import FollowerStatus
from switchgear.follower.table import CircuitTable
from switchgear.follower.view import CircuitView, LeaseView
from switchgear.guard.call import Answer
from switchgear.guard.options import GuardOptions
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import (
    CallerErrorsError,
    CircuitOpenError,
    CredentialRefusedError,
    DuplicateCallError,
    Rejection,
    SessionExhaustedError,
)
from switchgear.guard.time_limit import CallTimeoutError, ThreadsBusyError
from switchgear.sessions import Session, SessionStatus
from switchgear.telemetry.hooks import CallOutcome, CircuitChange, FunctionHooks, Hooks
from switchgear.telemetry.status import SwitchgearStatus
from switchgear.usage import Usage
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.caching.cache import CachePolicy
    from switchgear.caching.repeated_calls import Duplicate
    from switchgear.compat import AgentCircuitBreaker, FallbackUsed, SpectraOptions, from_spectra
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower
    from switchgear_schemas.policy import BreakerPolicy

__all__ = [
    "IGNORE",
    "AgentCircuitBreaker",
    "Answer",
    "BreakerPolicy",
    "CachePolicy",
    "CallOutcome",
    "CallTimeoutError",
    "CallerErrorsError",
    "CircuitChange",
    "CircuitFollower",
    "CircuitOpenError",
    "CircuitTable",
    "CircuitView",
    "Classification",
    "CredentialRefusedError",
    "Duplicate",
    "DuplicateCallError",
    "Emitter",
    "EmitterStatus",
    "Event",
    "FallbackUsed",
    "FollowerStatus",
    "FunctionHooks",
    "GuardOptions",
    "Hooks",
    "KafkaConnection",
    "LeaseView",
    "OptionError",
    "Permit",
    "Receipt",
    "Rejection",
    "Session",
    "SessionExhaustedError",
    "SessionStatus",
    "SpectraOptions",
    "Switchgear",
    "SwitchgearError",
    "SwitchgearStatus",
    "ThreadsBusyError",
    "Usage",
    "classify",
    "classify_result",
    "from_spectra",
    "outage_in_text",
]


_LAZY: Final = {
    "BreakerPolicy": "switchgear_schemas.policy",
    "AgentCircuitBreaker": "switchgear.compat",
    "CachePolicy": "switchgear.caching.cache",
    "CircuitFollower": "switchgear.follower.follower",
    "Duplicate": "switchgear.caching.repeated_calls",
    "Emitter": "switchgear.emitter.emitter",
    "FallbackUsed": "switchgear.compat",
    "SpectraOptions": "switchgear.compat",
    "from_spectra": "switchgear.compat",
}
"""Imported at first use: asyncio and pydantic cost 40 and 70 ms that ``import switchgear`` must not; the others are for some only."""


def __getattr__(name: str) -> Any:
    """See ``_LAZY``."""
    where = _LAZY.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(where), name)
