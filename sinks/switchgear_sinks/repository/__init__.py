"""Read what is stored, as Python values."""

from switchgear_sinks.repository.circuits import CircuitsRepository
from switchgear_sinks.repository.emitters import EmittersRepository
from switchgear_sinks.repository.list_changes import ListChangesRepository
from switchgear_sinks.repository.tool_errors import ToolErrorsRepository
from switchgear_sinks.repository.tool_metrics import ToolMetricsRepository

__all__ = [
    "CircuitsRepository",
    "EmittersRepository",
    "ListChangesRepository",
    "ToolErrorsRepository",
    "ToolMetricsRepository",
]
