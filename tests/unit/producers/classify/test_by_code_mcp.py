"""Errors of a real MCP server are classified: protocol errors by code, failing tools by result."""

from __future__ import annotations

from types import SimpleNamespace

import mcp
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from switchgear.classify import Classification, classify, classify_result, outage_in_text
from switchgear.classify.result import result_text
from tests.support.table import table

pytestmark = pytest.mark.slow


@pytest.fixture
def server():
    server = MCPServer("weather")

    @server.tool()
    def get_forecast(city: str) -> str:
        if city == "Nowhere":
            raise ToolError("no such city")
        if city == "Down":
            raise ConnectionRefusedError(111, "Connection refused")
        return f"rain in {city}"

    return server


async def test_answer_of_an_mcp_tool_is_not_a_failure(server):
    async with mcp.Client(server) as client:
        assert classify_result(await client.call_tool("get_forecast", {"city": "Oslo"})) is None


async def test_error_of_an_mcp_tool_has_class_tool(server):
    async with mcp.Client(server) as client:
        result = await client.call_tool("get_forecast", {"city": "Nowhere"})
    assert classify_result(result) == Classification("tool")
    assert "no such city" in result_text(result)
    assert classify_result(result, by_text=outage_in_text) == Classification("tool")


async def test_by_text_finds_an_outage_behind_an_mcp_tool(server):
    async with mcp.Client(server) as client:
        result = await client.call_tool("get_forecast", {"city": "Down"})
    assert classify_result(result) == Classification("tool")
    rule = lambda text: outage_in_text(text)  # noqa: E731, PLW0108 - as a user writes it
    if "Connection refused" in result_text(result):
        assert classify_result(result, by_text=rule) == Classification("transport")
    else:  # a server that hides its exceptions' words
        assert classify_result(result, by_text=rule) == Classification("tool")


async def test_classifies_an_mcp_result_as_a_dict(server):
    async with mcp.Client(server) as client:
        result = await client.call_tool("get_forecast", {"city": "Nowhere"})
    for by_alias in (True, False):
        shape = result.model_dump(mode="json", by_alias=by_alias)
        assert classify_result(shape) == Classification("tool")
        assert "no such city" in result_text(shape)


async def test_unknown_mcp_tool_has_class_invalid_input_or_tool(server):
    async with mcp.Client(server) as client:
        try:
            found = classify_result(await client.call_tool("get_tides", {}))
        except mcp.MCPError as error:
            found = classify(error)
    assert found.error_class in {"invalid_input", "tool"}


@table(
    ("code", "expected"),
    [
        (-32700, "server"),
        (-32600, "invalid_input"),
        (-32601, "invalid_input"),
        (-32602, "invalid_input"),
        (-32603, "server"),
        (-32000, "transport"),
        (-32001, "timeout"),
        (-32002, "invalid_input"),
        (-32042, "auth"),
        (408, "timeout"),
        (-32050, "tool"),
        (7, "tool"),
    ],
)
def test_mcp_error_has_the_class_of_its_code(code, expected):
    assert classify(mcp.MCPError(code, "m")) == Classification(expected)


def test_classifies_errors_of_mcp_sdk_1():
    error = type("McpError", (Exception,), {"__module__": "mcp.shared.exceptions"})("Timed out")
    error.error = SimpleNamespace(code=408, message="Timed out")
    assert classify(error) == Classification("timeout")


def test_tool_error_of_an_mcp_server_has_class_tool():
    assert classify(ToolError("no such city")) == Classification("tool")
    fastmcp = type("ToolError", (Exception,), {"__module__": "fastmcp.exceptions"})("x")
    assert classify(fastmcp) == Classification("tool")
