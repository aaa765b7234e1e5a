"""OpenInference, the conventions of Phoenix: its instrumentations of LangChain, OpenAI Agents, smolagents, CrewAI and others."""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, from_claude_name, tool_in_span_name
from switchgear_gateway.otlp.failures import failure_of
from switchgear_gateway.otlp.records import Span, text, whole
from switchgear_schemas import ToolExecution

CONVENTION: Final = "openinference/0.1"


def detects(span: Span) -> bool:
    """Return whether the span is a tool call."""
    return span.attributes.get("openinference.span.kind") == "TOOL"


def to_execution(span: Span) -> ToolExecution:
    """Return the tool call.

    Raises:
        UnusableRecordError: The span has no tool, times or ids.
    """
    found = span.attributes
    return execution_of(
        span,
        convention=CONVENTION,
        tool=from_claude_name(text(found, "tool.name") or tool_in_span_name(span.name)),
        failure=failure_of(span),
        call_id=text(found, "tool_call.id"),
        input_tokens=whole(found, "llm.token_count.prompt"),
        output_tokens=whole(found, "llm.token_count.completion"),
    )
