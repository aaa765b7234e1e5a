"""Switchgear: circuit breakers for the tools of AI agents, shared by the fleet.

from switchgear import Switchgear

gear = Switchgear("localhost:9092", service="planner")

@gear.guard("mcp:weather:get_forecast", fallback="mcp:backup-weather:get_forecast")
async def get_forecast(city: str) -> dict: ...
"""

from typing import TYPE_CHECKING, Any

from switchgear.classify import Classification, classify
from switchgear.client import Switchgear, SwitchgearStatus
from switchgear.emitter.event import Event
from switchgear.emitter.receipt import Receipt
from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus
from switchgear.follower.table import CircuitTable
from switchgear.follower.view import CircuitView, LeaseView
from switchgear.guard import CircuitOpenError, Permit, Rejection
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.policy import BreakerPolicy

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower

__all__ = [
    "BreakerPolicy",
    "CircuitFollower",
    "CircuitOpenError",
    "CircuitTable",
    "CircuitView",
    "Classification",
    "Emitter",
    "EmitterStatus",
    "Event",
    "FollowerStatus",
    "KafkaConnection",
    "LeaseView",
    "Permit",
    "Receipt",
    "Rejection",
    "Switchgear",
    "SwitchgearError",
    "SwitchgearStatus",
    "classify",
]


def __getattr__(name: str) -> Any:
    """The two that need asyncio, at first use: it costs 40 ms that ``import switchgear`` must not."""
    if name == "Emitter":
        from switchgear.emitter.emitter import Emitter  # noqa: PLC0415

        return Emitter
    if name == "CircuitFollower":
        from switchgear.follower.follower import CircuitFollower  # noqa: PLC0415

        return CircuitFollower
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
