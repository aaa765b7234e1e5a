"""Only results with an error flag are failures, and their text counts only with ``by_text``."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.classify import IGNORE, Classification, classify_result, outage_in_text
from switchgear.classify.result import MAX_TEXT, result_text
from tests.support.table import table


def failed(text="it failed"):
    return {"content": [{"type": "text", "text": text}], "isError": True}


class CallToolResult:
    """A result as in FastMCP and MCP SDK 1."""

    def __init__(self, *, camel: bool, value: object = True) -> None:
        self.content = [SimpleNamespace(type="text", text="it failed")]
        setattr(self, "isError" if camel else "is_error", value)


class Derived(CallToolResult):
    pass


@pytest.mark.parametrize("camel", [True, False])
@pytest.mark.parametrize("kind", [CallToolResult, Derived])
def test_failed_call_tool_result_has_class_tool(kind, camel):
    assert classify_result(kind(camel=camel)) == Classification("tool")
    assert classify_result(kind(camel=camel, value=False)) is None
    assert classify_result(kind(camel=camel, value=None)) is None
    assert result_text(kind(camel=camel)) == "it failed"


def test_failed_dict_of_mcp_or_anthropic_has_class_tool():
    assert classify_result(failed()) == Classification("tool")
    block = {"type": "tool_result", "tool_use_id": "t", "content": "it failed", "is_error": True}
    assert classify_result(block) == Classification("tool")
    assert result_text(block) == "it failed"


@pytest.mark.parametrize(
    "result",
    [
        None,
        0,
        "isError",
        [failed()],
        {},
        {"isError": True},
        {"content": [], "isError": False},
        {"content": [], "isError": "true"},
        {"content": [], "isError": 1},
        {"error": "x", "content": []},
        SimpleNamespace(isError=True, content=[]),
        MagicMock(),
        httpx.Response(503),
        ValueError("returned, not raised"),
    ],
)
def test_other_results_are_not_failures(result):
    assert classify_result(result) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Error executing tool search: [Errno 111] Connection refused", "transport"),
        ("getaddrinfo ENOTFOUND api.test", "transport"),
        ("All connection attempts failed", "transport"),
        ("Request timed out.", "timeout"),
        ("DEADLINE EXCEEDED", "timeout"),
        ("Client error '429 Too Many Requests' for url", "rate_limited"),
        ("API rate limit exceeded for user 5", "rate_limited"),
        ("Server error '503 Service Unavailable' for url", "server"),
        ("502 Bad Gateway", "server"),
        ("504 Gateway Timeout", "timeout"),
        ("503 Server Error: Service Unavailable for url: https://api.test/x", "server"),
        ("HTTP Error 503: Service Unavailable", "server"),
        ("503, message='Service Unavailable', url='https://api.test/x'", "server"),
        ("AxiosError: Request failed with status code 503", "server"),
        ("Request failed with status code 504", "timeout"),
        ("Request failed with status code 429", "rate_limited"),
        ("Error code: 529 - {'type': 'error'}", "server"),
        ("timeout of 5000ms exceeded", "timeout"),
        ("[WinError 10060] A connection attempt failed", "timeout"),
        ("dial tcp 10.0.0.1:443: i/o timeout", "timeout"),
        ("Remote end closed connection without response", "transport"),
        ("Server disconnected without sending a response.", "transport"),
        ("Cannot connect to host api.test:443 ssl:default [Connect call failed ('10.0.0.1', 443)]", "transport"),
        ("TypeError: fetch failed", "transport"),
        ("Error: socket hang up", "transport"),
        ("[Errno 8] nodename nor servname provided, or not known", "transport"),
        ("[WinError 10061] No connection could be made because the target machine actively refused it", "transport"),
        ("[Errno 11001] getaddrinfo failed", "transport"),
        ("curl: (6) Could not resolve host: api.test", "transport"),
        ("503 from upstream", "server"),
        ("Answer: 504 from the upstream", "timeout"),
        ("MCP error -32000: Connection closed", "transport"),
        ("Tool 'search' failed after 3 attempts with ConnectionError: no route", "transport"),
        ("ConnectionRefusedError(111, 'no')", "transport"),
        ("ended with httpx.ConnectError", "transport"),
        ("requests.exceptions.ConnectionError: x", "transport"),
        ("ended with httpx.ReadTimeout.", "timeout"),
        ("TimeoutError: ", "timeout"),
        ("Error: ReadTimeout('')\n Please fix your mistakes.", "timeout"),
        ("MCP error -32000: no such session", None),
        ("found 503 from upstate", None),
        ("404 from upstream", None),
        ("how to catch a ConnectionError in Python", None),
        ("my connectionerror: none", None),
        ("SlowConnectionError: x", None),
        ("fetch failed: no such city", None),
        ("404 Client Error: Not Found for url: https://api.test/503", None),
        ("HTTP Error 404: Not Found", None),
        ("Request failed with status code 404", None),
        ("order 503, message to the driver", None),
        ("no such city", None),
        ("row 503 has no service", None),
        ("the meeting room is unavailable", None),
        ("invalid value for timeout", None),
        ("", None),
    ],
)
def test_outage_in_text_classifies_an_outage(text, expected):
    assert outage_in_text(text) == expected
    assert classify_result(failed(text), by_text=outage_in_text) == Classification(expected or "tool")
    assert classify_result(failed(text)) == Classification("tool")


def of_library(library, name, **values):
    return type(name, (SimpleNamespace,), {"__module__": f"{library}.core"})(**values)


def test_failed_tool_output_of_llama_index_has_class_tool():
    failed_output = of_library("llama_index", "ToolOutput", content="Connection refused", is_error=True)
    assert classify_result(failed_output) == Classification("tool")
    assert classify_result(failed_output, by_text=outage_in_text) == Classification("transport")
    assert classify_result(of_library("llama_index", "ToolOutput", content="x", is_error=False)) is None


@pytest.mark.parametrize("name", ["ToolOutput", "ToolResult", "ToolMessage", "ToolFailure", "Content"])
def test_type_of_your_own_with_the_name_of_a_frameworks_type_is_no_failure(name):
    mine = of_library("mine", name, content="x", is_error=True, status="error", type="function_result", exception="x")
    assert classify_result(mine) is None


def test_new_name_of_the_flag_decides_and_the_old_one_is_not_read():
    class CallToolResult:
        content = ()
        is_error = False

        @property
        def isError(self):  # noqa: N802 - MCP's name
            raise AssertionError("read")

    assert classify_result(CallToolResult()) is None


SERVER = Classification("server")


def answer(status, text="it failed"):
    return of_library("langchain_core", "ToolMessage", content=text, status=status)


def command(update):
    return of_library("langgraph", "Command", update=update, goto="reviewer")


@table(
    "update",
    [
        {"messages": [answer("error")], "cities": ["Oslo"]},
        {"messages": answer("error")},
        [("cities", ["Oslo"]), ("messages", [answer("error")])],
        [answer("error")],
        answer("error"),
        SimpleNamespace(messages=[SimpleNamespace(status="error"), answer("error")]),
    ],
)
def test_a_command_with_an_error_message_is_a_failure_with_its_text(update):
    assert classify_result(command(update)) == Classification("tool")
    assert result_text(command(update)) == "it failed"
    assert classify_result(command(update), by_text=lambda text: "server" if text == "it failed" else None) == SERVER


@table(
    "update",
    [
        None,
        {},
        "messages",
        {"messages": None},
        {"messages": [answer("success")]},
        {"messages": [answer("error"), answer("success")]},
        {"history": [answer("error")]},
        [("history", [answer("error")])],
        [SimpleNamespace(status="error")],
        {"messages": [{"role": "tool", "status": "error"}]},
        {"messages": [None] * 1_000_000 + [answer("error")]},
    ],
)
def test_a_command_without_an_error_or_with_that_of_another_call_is_a_success(update):
    assert classify_result(command(update)) is None


def test_a_command_whose_update_cannot_be_read_is_a_success_and_is_logged(caplog):
    class Command:
        __module__ = "langgraph.types"

        @property
        def update(self):
            raise RuntimeError("gone")

    assert classify_result(Command()) is None
    assert "a result of type Command could not be read" in caplog.text


@pytest.mark.parametrize("name", ["resultType", "result_type"])
def test_request_for_input_is_ignored(name):
    assert classify_result({name: "input_required", "requestState": "s"}) == IGNORE
    assert classify_result({name: "complete"}) is None
    assert classify_result({name: ["input_required"]}) is None


def test_by_text_receives_the_text():
    seen = []
    classify_result(failed("quota"), by_text=seen.append)
    assert seen == ["quota"]
    assert classify_result({"content": [], "isError": False}, by_text=seen.append) is None
    assert seen == ["quota"]


def test_result_text_skips_blocks_without_text():
    blocks = [{"type": "image", "data": "…"}, {"type": "text", "text": "a"}, 5, SimpleNamespace(text="b")]
    assert result_text({"content": blocks}) == "a\nb"
    assert result_text({"content": 5}) == ""
    assert result_text(object()) == ""


@given(st.lists(st.text(max_size=5_000), max_size=40))
def test_result_text_is_bounded(texts):
    assert len(result_text({"content": [{"text": text} for text in texts]})) <= MAX_TEXT
