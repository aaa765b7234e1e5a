"""The conventions by which a span or a log record is a tool call, one file each. The first that detects a record maps it."""

from __future__ import annotations

from typing import Final, Protocol

from switchgear_gateway.otlp.mappings import (
    claude_code,
    codex_cli,
    gemini_cli,
    langfuse,
    mcp,
    openinference,
    openllmetry,
    otel_genai,
    vercel_ai,
)
from switchgear_gateway.otlp.records import Log, Span
from switchgear_schemas import ToolExecution


class SpanMapping(Protocol):
    """A convention for spans. Its functions are pure."""

    CONVENTION: str

    def detects(self, span: Span, /) -> bool:
        """Return whether the span is a tool call."""

    def to_execution(self, span: Span, /) -> ToolExecution:
        """Return the tool call."""


class LogMapping(Protocol):
    """A convention for log records. Its functions are pure."""

    CONVENTION: str

    def detects(self, log: Log, /) -> bool:
        """Return whether the record is a tool call."""

    def to_execution(self, log: Log, /) -> ToolExecution:
        """Return the tool call."""


SPAN_MAPPINGS: Final[tuple[SpanMapping, ...]] = (langfuse, openinference, openllmetry, vercel_ai, mcp, otel_genai)
"""Libraries come before OpenTelemetry's conventions, because many set attributes of both. MCP says more than its tool call."""
LOG_MAPPINGS: Final[tuple[LogMapping, ...]] = (claude_code, codex_cli, gemini_cli)

_GUARDED: Final = frozenset({"switchgear.circuit.state", "switchgear.served_by"})
"""What ``OpenTelemetryHooks`` writes on the span of a guarded call. The guard emits that call itself."""


def of_span(span: Span) -> ToolExecution | None:
    """Return the tool call that a span describes, None for any other span and for a call that Switchgear's guard emits.

    Raises:
        UnusableRecordError: The span is a tool call, but has no tool, times or ids.
        pydantic.ValidationError: A value is out of range.
    """
    found = next((each for each in SPAN_MAPPINGS if each.detects(span)), None)
    return None if found is None or _GUARDED & span.attributes.keys() else found.to_execution(span)


def is_recognised(span: Span) -> bool:
    """Return whether a mapping takes the span for a tool call."""
    return any(each.detects(span) for each in SPAN_MAPPINGS)


def of_log(log: Log) -> ToolExecution | None:
    """Return the tool call that a log record describes, None for any other record.

    Raises:
        UnusableRecordError: The record is a tool call, but has no tool or time.
        pydantic.ValidationError: A value is out of range.
    """
    found = next((each for each in LOG_MAPPINGS if each.detects(log)), None)
    return None if found is None else found.to_execution(log)
