"""MCP's protocol errors: McpError (SDK 1) and MCPError (SDK 2), by their JSON-RPC code."""

from __future__ import annotations

from typing import Final

from switchgear.classify.classification import Classification, attribute, family
from switchgear.numeric import is_whole
from switchgear_schemas.words import ErrorClass

_BY_CODE: Final[dict[int, ErrorClass]] = {
    408: "timeout",  # SDK 1 reports its own time limit by HTTP's number
    -32000: "transport",  # connection closed
    -32001: "timeout",  # request timeout
    -32002: "invalid_input",  # resource not found
    -32042: "auth",  # the user has to sign in first
    -32600: "invalid_input",
    -32601: "invalid_input",  # no such method
    -32602: "invalid_input",  # no such tool, or wrong arguments
    -32603: "server",
    -32700: "server",
}


def by_mcp_code(error: BaseException) -> Classification | None:
    """Classify by the code; one that the server made up is class ``tool``: it answered. None for other exceptions."""
    if not family(error) & {"mcp", "mcp_types", "fastmcp"}:
        return None
    code = attribute(attribute(error, "error"), "code")
    if not is_whole(code):
        return None
    return Classification(_BY_CODE.get(code, "tool"))
