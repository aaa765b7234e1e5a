"""OpenTelemetry's conventions for generative AI: Agent Framework, pydantic-ai and Logfire, Google ADK, the Vercel AI SDK from 7 on.

Read from semantic-conventions 1.41, the last with the conventions, and from semantic-conventions-genai, where they continue. Both
have status Development. What differs for tool calls is the event that records an exception; both are read.
"""

from __future__ import annotations

import json
from typing import Final

from switchgear.classify.by_text import caught_error
from switchgear_gateway.otlp.executions import execution_of, from_claude_name
from switchgear_gateway.otlp.failures import Failure, failure, failure_of
from switchgear_gateway.otlp.records import Span, text, whole
from switchgear_schemas import ToolExecution

CONVENTION: Final = "otel-genai/1.41"
_NO_CALL_ID: Final = frozenset({"unknown", "<not specified>"})
"""What Agent Framework and Google ADK write for none."""
_ADK: Final = "gcp.vertex.agent"
_MCP_TOOLS: Final = frozenset({"McpTool", "MCPTool"})
_MOST: Final = 4_000
"""Characters of an answer of google-adk that are looked at. The text of an exception is shorter."""


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
        failure=_failure_of_adk(span) if span.scope == _ADK else failure_of(span),
        call_id=None if call_id in _NO_CALL_ID else call_id,
        input_tokens=whole(found, "gen_ai.usage.input_tokens"),
        output_tokens=whole(found, "gen_ai.usage.output_tokens"),
    )


def _failure_of_adk(span: Span) -> Failure | None:
    """Return how a call of google-adk failed, None for a success.

    Without an exception, ``error.type`` is a word for what the tool answered. An exception that an McpTool caught is in its
    answer alone, if the program exports the contents of messages, and there is no ``error.type``.
    """
    failed = failure_of(span, otherwise="unknown" if span.exception is not None else "tool")
    if failed is not None or text(span.attributes, "gen_ai.tool.type") not in _MCP_TOOLS:
        return failed
    said = _error_in(text(span.attributes, "gcp.vertex.agent.tool_response", "gen_ai.tool.call.result") or "")
    found = caught_error(said)
    return None if found is None else failure(None, said, otherwise=found)


def _error_in(answer: str) -> str:
    """Return the ``error`` of an answer of google-adk, empty without one."""
    try:
        found = json.loads(answer) if len(answer) <= _MOST and answer.startswith('{"error"') else None
    except (ValueError, RecursionError):
        return ""
    said = found.get("error") if isinstance(found, dict) else None
    return said if isinstance(said, str) else ""
