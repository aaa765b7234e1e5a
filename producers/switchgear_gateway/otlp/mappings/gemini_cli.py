"""The logs of Gemini CLI: the event ``gemini_cli.tool_call``, as version 0.61 writes it."""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, mcp_tool, plain_name
from switchgear_gateway.otlp.mappings.coding_agents import outcome
from switchgear_gateway.otlp.records import Log, number, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "gemini-cli/0"


def detects(log: Log) -> bool:
    """Return whether the record is a tool call."""
    return log.event == "gemini_cli.tool_call"


def to_execution(log: Log) -> ToolExecution:
    """Return the tool call. One that the user rejected is cancelled, because it did not run.

    Raises:
        UnusableRecordError: The record has no tool or time.
    """
    found = log.attributes
    tool, server = text(found, "function_name"), text(found, "mcp_server_name")
    if server is not None and tool is not None:
        name = tool.removeprefix("mcp_").removeprefix(f"{server}_").removeprefix(f"{server}__")
        tool = mcp_tool(server, plain_name(name))
    return execution_of(
        log,
        convention=CONVENTION,
        tool=tool,
        failure=outcome(
            log,
            tool=tool,
            rejected=text(found, "decision") == "reject",
            error=text(found, "error.message", "error"),
            error_type=text(found, "error_type", "error.type"),
        ),
        duration_ms=number(found, "duration_ms"),
        session_id=text(found, "session.id"),
        request_id=text(found, "prompt_id"),
    )
