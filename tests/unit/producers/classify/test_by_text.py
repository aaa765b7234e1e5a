"""Texts that a framework made of an exception."""

from __future__ import annotations

from switchgear.classify.by_text import caught_error, quoted_error
from tests.support.table import table

MCP = "MCP tool execution failed: "
OTHER = "Unexpected error during MCP tool execution: "


@table(
    ("text", "error_class"),
    [
        (f"{MCP}Connection closed", "transport"),
        (f"{MCP}Request 'tools/call' timed out", "timeout"),
        (f"{MCP}Timed out while waiting for response to ClientRequest. Waited 5.0 seconds.", "timeout"),
        (f"{MCP}no such city", None),
        (f"{MCP}the page says: Connection closed", None),
        (f"{MCP}Request 'tools/call' timed out, says the page", None),
        (f"{MCP}Request '{'a/' * 1_000_000}' timed out", None),
        (f"{OTHER}Failed to create MCP session: timed out after 5.0s", "timeout"),
        (f"{OTHER}Failed to create MCP session: unhandled errors in a TaskGroup", "transport"),
        (f"{OTHER}All connection attempts failed", "transport"),
        (f"{OTHER}'days'", "unknown"),
        ("Connection closed", None),
        (f" {MCP}Connection closed", None),
        ("", None),
    ],
)
def test_an_mcp_error_that_adk_turned_into_a_result_has_the_class_of_the_error(text, error_class):
    assert caught_error(text) == error_class


@table(
    ("text", "found"),
    [
        ("ValueError('no such city')", ("ValueError", "no such city")),
        ("ValueError(\"no 'such' city\")", ("ValueError", "no 'such' city")),
        ("ValueError()", ("ValueError", "")),
        ("ValueError(')", ("ValueError", "'")),
        ("OSError(111, 'Connect call failed')\n", ("OSError", "111, 'Connect call failed'")),
        ("httpx.ConnectError: no route: really", ("httpx.ConnectError", "no route: really")),
        ("requests.exceptions.ConnectTimeout: x", ("requests.exceptions.ConnectTimeout", "x")),
        ("httpx.ReadTimeout:", ("httpx.ReadTimeout", "")),
        ("Error: ValueError('x')", ("Error", "ValueError('x')")),
        ("Foo('x')", None),
        ("Note: the tool failed", None),
        ("value Error: x", None),
        (" ValueError('x')", None),
        ("ValueError", None),
        ("ValueError:x", None),
        ("the page says: ConnectError('x')", None),
        ("V\u00e9Error('x')", None),
        ("A." * 5_000_000 + "Error('x')", None),
        ("A" * 5_000_000 + "Error('x')", None),
        ("", None),
    ],
)
def test_the_exception_that_a_text_begins_with_is_found_as_repr_and_as_python_prints_it(text, found):
    assert quoted_error(text) == found


def test_a_quoted_message_is_as_long_as_any_other():
    found = quoted_error("ValueError('" + "x" * 10_000_000 + "')")
    assert found is not None
    assert len(found[1]) < 2_000
