"""The contracts between Switchgear's processes, and with yours. Settings live in ``switchgear_schemas.settings``."""

from switchgear_schemas.circuit import Cause, Circuit, CircuitState, Counts, Lease, Mode, Scope
from switchgear_schemas.command import Command, Verb
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.errors import (
    BrokerUnavailableError,
    InvalidExecutionError,
    SettingsError,
    StoreUnavailableError,
    SwitchgearError,
)
from switchgear_schemas.execution import ErrorClass, ServedBy, Status, ToolExecution, ToolMetric
from switchgear_schemas.health import HealthStatus, SystemHealthReport, ToolHealthReport
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy, Cusum
from switchgear_schemas.topics import TopicDefinition, TopicNames, topic_definitions

__all__ = [
    "FLEET_DEFAULT",
    "LOCAL_DEFAULT",
    "BreakerPolicy",
    "BrokerUnavailableError",
    "Cause",
    "Circuit",
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
