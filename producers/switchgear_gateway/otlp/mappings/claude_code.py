"""The logs of Claude Code: the event ``claude_code.tool_result``, as version 2.1.332 writes it.

All tools of MCP servers are named ``mcp_tool`` there. With ``OTEL_LOG_TOOL_DETAILS=1`` the log has their names too. Without it their
calls are refused, because one circuit for the tools of all servers would be wrong.
"""

from __future__ import annotations

import json
from typing import Any, Final

from switchgear_gateway.otlp.executions import UnusableRecordError, execution_of, from_claude_name, mcp_tool
from switchgear_gateway.otlp.mappings.coding_agents import outcome
from switchgear_gateway.otlp.records import Log, number, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "claude-code/2"
_ANY_MCP_TOOL: Final = "mcp_tool"


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
    name = _name(log)
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


def _name(log: Log) -> str | None:
    """Return the tool's name. The names of an MCP tool are attributes, or in the JSON of ``tool_parameters``."""
    named = text(log.attributes, "tool_name")
    details = {"mcp_server_name": None, "mcp_tool_name": None} | _parameters(log) | dict(log.attributes)
    server, tool = details["mcp_server_name"], details["mcp_tool_name"]
    if server and tool:
        return mcp_tool(str(server), str(tool))
    if named == _ANY_MCP_TOOL:
        raise UnusableRecordError("Claude Code does not name the MCP tool; set OTEL_LOG_TOOL_DETAILS=1 for it")
    return from_claude_name(named)


def _parameters(log: Log) -> dict[str, Any]:
    try:
        found = json.loads(text(log.attributes, "tool_parameters") or "{}")
    except (ValueError, RecursionError):  # it may be cut
        return {}
    return found if isinstance(found, dict) else {}
