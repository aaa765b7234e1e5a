"""Langfuse's SDKs from 3 on: functions with ``@observe(as_type="tool")``, and its handler for LangChain."""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, from_claude_name
from switchgear_gateway.otlp.failures import failure, failure_of
from switchgear_gateway.otlp.records import Span, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "langfuse/5"
_LEVEL: Final = "langfuse.observation.level"
_MESSAGE: Final = "langfuse.observation.status_message"


def detects(span: Span) -> bool:
    """Return whether the span is a tool call."""
    return span.attributes.get("langfuse.observation.type") == "tool"


def to_execution(span: Span) -> ToolExecution:
    """Return the tool call. Langfuse records the message of an exception without its type.

    Raises:
        UnusableRecordError: The span has no tool, times or ids.
    """
    found = span.attributes
    failed = failure_of(span)
    if found.get(_LEVEL) == "ERROR" and (failed is None or failed.message is None):
        failed = failure(text(found, "error.type"), text(found, _MESSAGE))
    call_id = text(found, "langfuse.observation.metadata.tool_call_id")
    return execution_of(
        span,
        convention=CONVENTION,
        tool=from_claude_name(span.name),
        failure=failed,
        call_id=None if call_id is None else call_id.strip('"'),  # the value is JSON
    )
