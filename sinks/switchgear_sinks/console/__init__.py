"""The console: pages for operators, served by the HTTP API."""

from switchgear_sinks.console.pages import ConsolePages

__all__ = ["ConsolePages"]
