"""How the tools are doing, judged from what the store knows."""

from switchgear_sinks.health.service import ToolHealthService

__all__ = ["ToolHealthService"]
