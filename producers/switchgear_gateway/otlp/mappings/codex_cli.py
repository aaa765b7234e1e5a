"""The logs of Codex CLI: the event ``codex.tool_result``, as version 0.169 writes it."""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, from_claude_name, mcp_tool, plain_name
from switchgear_gateway.otlp.mappings.coding_agents import outcome
from switchgear_gateway.otlp.records import Log, number, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "codex-cli/0"


def detects(log: Log) -> bool:
    """Return whether the record is a tool's result."""
    return log.event == "codex.tool_result"


def to_execution(log: Log) -> ToolExecution:
    """Return the tool call. The output of a failed MCP tool is not kept, so no text of it counts.

    Raises:
        UnusableRecordError: The record has no tool or time.
    """
    found = log.attributes
    tool = from_claude_name(text(found, "tool_name"))
    space = text(found, "tool_namespace") or ""  # of an MCP tool that doesn't exist, there is only this
    server = text(found, "mcp_server") or (space.removeprefix("mcp__") if space.startswith("mcp__") else None)
    if server is not None and tool is not None:
        tool = mcp_tool(server, plain_name(tool))
    failed = outcome(log, tool=tool, rejected=False, error=text(found, "output"), error_type=None)
    return execution_of(
        log,
        convention=CONVENTION,
        tool=tool,
        failure=None if failed is None else failed._replace(message=None),
        call_id=text(found, "call_id"),
        duration_ms=number(found, "duration_ms"),
        session_id=text(found, "conversation.id"),
        user_id=text(found, "user.account_id"),
    )
