"""Assess the health of tools from their stored calls."""

from switchgear_sinks.health.service import ToolHealthService

__all__ = ["ToolHealthService"]
