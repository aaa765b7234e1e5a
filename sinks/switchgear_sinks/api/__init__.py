"""The HTTP API that the command line, the console and dashboards read."""

from switchgear_sinks.api.app import create_app

__all__ = ["create_app"]
