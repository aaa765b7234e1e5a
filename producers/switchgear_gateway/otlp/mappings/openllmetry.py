"""OpenLLMetry, the conventions of Traceloop: its instrumentations, and functions with its decorator ``@tool``."""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, from_claude_name
from switchgear_gateway.otlp.failures import failure_of
from switchgear_gateway.otlp.records import Span, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "openllmetry/0.62"


def detects(span: Span) -> bool:
    """Return whether the span is a tool call."""
    return span.attributes.get("traceloop.span.kind") == "tool"


def to_execution(span: Span) -> ToolExecution:
    """Return the tool call.

    Raises:
        UnusableRecordError: The span has no tool, times or ids.
    """
    found = span.attributes
    return execution_of(
        span,
        convention=CONVENTION,
        tool=from_claude_name(text(found, "traceloop.entity.name", "gen_ai.tool.name")),
        failure=failure_of(span),
        call_id=text(found, "gen_ai.tool.call.id"),
    )
