"""The contracts between Switchgear's processes, and with yours. Settings live in ``switchgear_schemas.settings``."""

import importlib
from typing import TYPE_CHECKING, Any, Final

from switchgear_schemas.errors import (
    BrokerUnavailableError,
    InvalidExecutionError,
    SettingsError,
    StoreUnavailableError,
    SwitchgearError,
)

if TYPE_CHECKING:
    from switchgear_schemas.cause import Cause
    from switchgear_schemas.circuit import Circuit, CircuitScope, CircuitState, Counts, Lease, Mode, Scope
    from switchgear_schemas.command import Command, Verb
    from switchgear_schemas.dead_letter import DeadLetter
    from switchgear_schemas.execution import ErrorClass, ServedBy, Status, ToolExecution, ToolMetric
    from switchgear_schemas.health import HealthStatus, SystemHealthReport, ToolHealthReport
    from switchgear_schemas.policy import (
        FAMILY_DEFAULT,
        FLEET_DEFAULT,
        LOCAL_DEFAULT,
        LOCAL_FAMILY_DEFAULT,
        BreakerPolicy,
        Cusum,
    )
    from switchgear_schemas.topics import TopicDefinition, TopicNames, topic_definitions

__all__ = [
    "FAMILY_DEFAULT",
    "FLEET_DEFAULT",
    "LOCAL_DEFAULT",
    "LOCAL_FAMILY_DEFAULT",
    "BreakerPolicy",
    "BrokerUnavailableError",
    "Cause",
    "Circuit",
    "CircuitScope",
    "CircuitState",
    "Command",
    "Counts",
    "Cusum",
    "DeadLetter",
    "ErrorClass",
    "HealthStatus",
    "InvalidExecutionError",
    "Lease",
    "Mode",
    "Scope",
    "ServedBy",
    "SettingsError",
    "Status",
    "StoreUnavailableError",
    "SwitchgearError",
    "SystemHealthReport",
    "ToolExecution",
    "ToolHealthReport",
    "ToolMetric",
    "TopicDefinition",
    "TopicNames",
    "Verb",
    "topic_definitions",
]

# Importing pydantic takes longer than the rest of the SDK together. The models are imported at their first use.
_MODULES: Final[dict[str, str]] = {
    "BreakerPolicy": "policy",
    "Cause": "cause",
    "Circuit": "circuit",
    "CircuitScope": "circuit",
    "CircuitState": "circuit",
    "Command": "command",
    "Counts": "circuit",
    "Cusum": "policy",
    "DeadLetter": "dead_letter",
    "ErrorClass": "execution",
    "FAMILY_DEFAULT": "policy",
    "FLEET_DEFAULT": "policy",
    "HealthStatus": "health",
    "LOCAL_DEFAULT": "policy",
    "LOCAL_FAMILY_DEFAULT": "policy",
    "Lease": "circuit",
    "Mode": "circuit",
    "Scope": "circuit",
    "ServedBy": "execution",
    "Status": "execution",
    "SystemHealthReport": "health",
    "ToolExecution": "execution",
    "ToolHealthReport": "health",
    "ToolMetric": "execution",
    "TopicDefinition": "topics",
    "TopicNames": "topics",
    "Verb": "command",
    "topic_definitions": "topics",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found
