"""OpenTelemetry's conventions for generative AI: Agent Framework, pydantic-ai and Logfire, Google ADK, the Vercel AI SDK from 7 on.

Read from semantic-conventions 1.41, the last with the conventions, and from semantic-conventions-genai, where they continue. Both
have status Development. What differs for tool calls is the event that records an exception; both are read.
"""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, from_claude_name
from switchgear_gateway.otlp.failures import failure_of
from switchgear_gateway.otlp.records import Span, text, whole
from switchgear_schemas import ToolExecution

CONVENTION: Final = "otel-genai/1.41"


def detects(span: Span) -> bool:
    """Return whether the span is a tool call. Some libraries set no operation, only the tool and the call's id."""
    operation = span.attributes.get("gen_ai.operation.name")
    if operation is None:
        return "gen_ai.tool.name" in span.attributes and "gen_ai.tool.call.id" in span.attributes
    return operation == "execute_tool"


def to_execution(span: Span) -> ToolExecution:
    """Return the tool call.

    Raises:
        UnusableRecordError: The span has no tool, times or ids.
    """
    found = span.attributes
    call_id = text(found, "gen_ai.tool.call.id")
    return execution_of(
        span,
        convention=CONVENTION,
        tool=from_claude_name(text(found, "gen_ai.tool.name")),
        failure=failure_of(span),
        call_id=None if call_id == "unknown" else call_id,  # what Agent Framework writes for none
        session_id=text(found, "gen_ai.conversation.id", "session.id"),
        user_id=text(found, "user.id", "enduser.id"),
        input_tokens=whole(found, "gen_ai.usage.input_tokens"),
        output_tokens=whole(found, "gen_ai.usage.output_tokens"),
    )
