"""The Vercel AI SDK up to version 6, and later ones with ``LegacyOpenTelemetry``. From 7 on it follows OpenTelemetry's conventions."""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, from_claude_name
from switchgear_gateway.otlp.failures import failure_of
from switchgear_gateway.otlp.records import Span, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "vercel-ai/5"


def detects(span: Span) -> bool:
    """Return whether the span is a tool call."""
    return span.attributes.get("ai.operationId") == "ai.toolCall"


def to_execution(span: Span) -> ToolExecution:
    """Return the tool call.

    Raises:
        UnusableRecordError: The span has no tool, times or ids.
    """
    found = span.attributes
    return execution_of(
        span,
        convention=CONVENTION,
        tool=from_claude_name(text(found, "ai.toolCall.name")),
        failure=failure_of(span),
        call_id=text(found, "ai.toolCall.id"),
    )
