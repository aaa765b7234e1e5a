"""The HTTP API: what the command line, the console and everybody's dashboards read."""

from switchgear_sinks.api.app import create_app

__all__ = ["create_app"]
