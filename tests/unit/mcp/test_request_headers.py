"""In the protocol without a handshake, headers of HTTP repeat what a request says."""

from __future__ import annotations

from switchgear_mcp import message as rpc
from switchgear_mcp.request_headers import annotated, encoded, mismatch, of_arguments, of_message

VERSION = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def test_a_request_names_its_version_its_method_and_what_it_is_for():
    found = of_message(rpc.request(1, "resources/read", {"uri": "a://b", "_meta": VERSION}), {})
    assert found == {"mcp-protocol-version": "2026-07-28", "mcp-method": "resources/read", "mcp-name": "a://b"}
    assert of_message(rpc.request(1, "tools/call", {"name": "x"}), {}) == {}, "it is of a protocol with a handshake"


def test_a_header_that_is_encoded_is_compared_as_what_it_stands_for():
    request = rpc.request(1, "tools/call", {"name": "\u00e9", "_meta": VERSION})
    right = of_message(request, {})
    assert right["mcp-name"] == "=?base64?w6k=?="
    assert mismatch(request, right) is None
    assert "mcp-name" in mismatch(request, right | {"mcp-name": "=?base64?w6?="})


def test_values_that_a_header_can_not_have_are_encoded():
    assert [encoded(each) for each in ("a b", "", " a", "\u00e9", "=?base64?YQ==?=")] == [
        "a b", "", "=?base64?IGE=?=", "=?base64?w6k=?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?=",
    ]  # fmt: skip


def test_arguments_are_repeated_that_the_tools_schema_names():
    inner = {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}}
    properties = {"where": inner, "dry": {"type": "boolean", "x-mcp-header": "Dry"}, "other": {"type": "string"}}
    tool = rpc.raw({"name": "t", "inputSchema": {"type": "object", "properties": properties}})
    wanted = annotated(tool)
    assert wanted == {("where", "zone"): "mcp-param-zone", ("dry",): "mcp-param-dry"}
    assert of_arguments(wanted, {"where": {"zone": "eu"}, "dry": True}) == {
        "mcp-param-zone": "eu",
        "mcp-param-dry": "true",
    }
    assert of_arguments(wanted, {"where": None}) == {}
    assert annotated(rpc.raw({"name": "t", "inputSchema": {}})) == {}
