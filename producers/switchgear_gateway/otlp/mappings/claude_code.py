"""The logs of Claude Code: the event ``claude_code.tool_result``, as its monitoring documentation of 2026 describes it.

With ``OTEL_LOG_TOOL_DETAILS=1`` the log names the server and the tool of an MCP call. Otherwise all MCP tools may share one name.
"""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, from_claude_name, mcp_tool
from switchgear_gateway.otlp.mappings.coding_agents import outcome
from switchgear_gateway.otlp.records import Log, number, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "claude-code/2"


def detects(log: Log) -> bool:
    """Return whether the record is a tool's result. The event is named with or without the program's name."""
    if log.event == "claude_code.tool_result":
        return True
    return log.event == "tool_result" and log.scope.startswith("com.anthropic.claude_code")


def to_execution(log: Log) -> ToolExecution:
    """Return the tool call. One that the user rejected is cancelled, because it did not run.

    Raises:
        UnusableRecordError: The record has no tool or time.
    """
    found = log.attributes
    server, tool = text(found, "mcp_server_name"), text(found, "mcp_tool_name")
    name = mcp_tool(server, tool) if server and tool else from_claude_name(text(found, "tool_name"))
    return execution_of(
        log,
        convention=CONVENTION,
        tool=name,
        failure=outcome(
            log,
            tool=name,
            rejected=text(found, "decision_type", "decision") == "reject",
            error=text(found, "error"),
            error_type=text(found, "error_type"),
        ),
        call_id=text(found, "tool_use_id"),
        duration_ms=number(found, "duration_ms"),
        session_id=text(found, "session.id"),
        user_id=text(found, "user.id"),
    )
