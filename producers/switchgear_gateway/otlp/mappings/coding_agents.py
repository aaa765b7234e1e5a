"""How coding agents log the outcome of a tool call. Their records agree on ``success``."""

from __future__ import annotations

from typing import Final

from switchgear.classify.result import client_error
from switchgear_gateway.otlp.failures import Failure, failure
from switchgear_gateway.otlp.records import Log, truth
from switchgear_schemas.enums import ErrorClass

_WORDS: Final[dict[str, ErrorClass]] = {
    "invalid_tool_params": "invalid_input",
    "mcp_tool_error": "tool",
    "policy_violation": "policy",
    "tool_not_registered": "invalid_input",
}
"""Types of errors of Gemini CLI. Others, which are about files and commands, are ``tool``."""


def outcome(log: Log, *, tool: str | None, rejected: bool, error: str | None, error_type: str | None) -> Failure | None:
    """Return how the call failed, None for a success.

    A built-in tool runs the user's commands, which fail all day, so its failures are of class ``tool`` and count nowhere. So are the
    answers of MCP tools. Only the words of the agent's own MCP client, as the whole text, say that there was no answer.
    """
    if rejected:
        return Failure("cancelled", error_type, None)
    if truth(log.attributes, "success") is not False:
        return None
    if error_type in _WORDS and _WORDS[error_type] != "tool":
        return failure(None, error, otherwise="tool")._replace(error_class=_WORDS[error_type], error_type=error_type)
    if tool is None or not tool.startswith("mcp:"):
        return Failure("tool", error_type, failure(None, error).message)
    return failure(None, error, otherwise=client_error(error or "") or "tool")._replace(error_type=error_type)
