"""OpenTelemetry's conventions for MCP, client and server: the MCP SDK from 2 on, FastMCP, Agent Framework.

The conventions have no attribute for the server's name. It is that of FastMCP, else the service of a server's span, else the address
that a client's span names. Without one, the tool has its own name only. ``mcp.session.id`` is a connection's and not an agent's
session, so it isn't read.
"""

from __future__ import annotations

from typing import Final

from switchgear_gateway.otlp.executions import execution_of, mcp_tool
from switchgear_gateway.otlp.failures import failure_of
from switchgear_gateway.otlp.records import SERVER, Span, text
from switchgear_schemas import ToolExecution

CONVENTION: Final = "otel-mcp/1.41"
_SENT: Final = "MCP send tools/call "
"""How the MCP SDK names a client's span. The span has no attribute with the tool."""
_USUAL_PORTS: Final = frozenset({None, "80", "443"})


def detects(span: Span) -> bool:
    """Return whether the span is a ``tools/call`` of a client or a server."""
    return span.attributes.get("mcp.method.name") == "tools/call"


def to_execution(span: Span) -> ToolExecution:
    """Return the tool call. An error that the server reports in its result is of class ``tool``, if its text says no more.

    Raises:
        UnusableRecordError: The span has no tool, times or ids.
    """
    found = span.attributes
    tool = text(found, "gen_ai.tool.name") or span.name.removeprefix(_SENT).removeprefix("tools/call").strip()
    return execution_of(
        span,
        convention=CONVENTION,
        tool=mcp_tool(_server(span), tool),
        failure=failure_of(span),
    )


def _server(span: Span) -> str | None:
    named = text(span.attributes, "fastmcp.server.name")
    if named is not None:
        return named
    if span.kind == SERVER:
        service = text(span.resource, "service.name")
        return None if service is None or service.startswith("unknown_service") else service
    address, port = text(span.attributes, "server.address"), text(span.attributes, "server.port")
    return address if address is None or port in _USUAL_PORTS else f"{address}-{port}"
