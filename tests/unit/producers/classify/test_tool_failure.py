"""A refusal in a result's ``_meta`` or text is recognised, and what other servers say there decides the class."""

from __future__ import annotations

import functools
import json
import time

import mcp
import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.mcpserver import MCPServer

from switchgear import BreakerPolicy, CircuitOpenError, Rejection, Switchgear
from switchgear.breaker.ramp import RECOVERY
from switchgear.classify import IGNORE, Classification, classify, classify_result, outage_in_text
from switchgear.classify.result import MAX_TEXT
from switchgear.classify.tool_failure import META_KEY, is_refusal, read_tool_failure, tool_failure
from switchgear.guard.time_limit import ThreadsBusyError
from tests.support.table import table

pytestmark = pytest.mark.slow

NOW = 1_790_000_000.25
REFUSED = "[Errno 111] Connection refused"
LONG = "mcp:weather " + "x" * 500
REJECTIONS = [
    Rejection("t", "open", "local", "why", 12.0, REFUSED),
    Rejection("t", "half_open", "fleet", fallback="remote:t"),
    Rejection("t", "forced_open", "fleet"),
    Rejection(LONG, "open", "fleet", last_error=REFUSED * 100),
    Rejection("mcp:a:t", "open", "fleet", family="mcp:a", last_error=REFUSED),
    Rejection("mcp:a:t", "forced_open", "fleet", family="mcp:a"),
    Rejection(LONG, "half_open", "fleet", family=LONG, last_error=REFUSED),
    Rejection("t", "closed", "fleet", f"{RECOVERY}20 % of calls are admitted", 3.0, REFUSED),
    Rejection("mcp:a:t", "closed", "fleet", family="mcp:a", last_error=REFUSED),
    Rejection(LONG, "closed", "fleet", family=LONG),
    Rejection("t", "open", "session", "session s has made 50 calls"),
    Rejection(LONG, "open", "session", "x" * 2_000),
    Rejection("t", "open", "duplicate", "the 3rd call in a row"),
    Rejection("t", "open", "duplicate"),
    Rejection("t", "open", "caller", failures=1, last_error="503 from upstream"),
    Rejection(LONG, "open", "caller", failures=3, last_error=REFUSED * 100),
    Rejection("t", "open", "caller"),
]
SIGNED_OUT = [
    Rejection("t", "open", "credential", failures=3, retry_after_s=60),
    Rejection(LONG, "half_open", "credential", failures=1, family=LONG),
    Rejection("t", "open", "credential", failures=999_999_999, family="mcp:a"),
]
"""Another guard learns from them what this one knows: the credential is rejected."""
TEXTS = [*(rejection.text for rejection in (*REJECTIONS, *SIGNED_OUT)), ThreadsBusyError("t").text]
by_text = functools.partial(classify_result, by_text=outage_in_text)


def failed(text="it failed", **values):
    return {"content": [{"type": "text", "text": text}], "isError": True} | values


def written(rejection, now=NOW):
    return tool_failure(
        rejection.source, rejection.text, retry_after_s=rejection.retry_after_s, correlation_id="c7", now=now
    )


@table("text", TEXTS)
def test_text_of_a_refusal_is_policy_wherever_it_is_quoted(text):
    for quoted in (text, f"Error calling tool 't': {text}", json.dumps({"error": text}), f"{text}\nPlease try again."):
        assert is_refusal(quoted)
        assert outage_in_text(quoted) == "policy"
        assert by_text(failed(quoted)) == IGNORE
        assert classify(RuntimeError(quoted)) == IGNORE
        assert classify(mcp.MCPError(-32603, quoted)) == IGNORE


def test_text_of_a_refusal_is_policy_even_if_the_exception_was_raised_from_an_outage():
    error = RuntimeError(TEXTS[0])
    error.__cause__ = ConnectionRefusedError(REFUSED)
    assert classify(error) == IGNORE


def test_outage_whose_message_has_the_text_of_a_refusal_stays_an_outage():
    assert classify(ConnectionRefusedError(TEXTS[0])) == Classification("transport")
    assert classify(TimeoutError(TEXTS[0])) == Classification("timeout")


@table(
    "text",
    [
        "",
        REFUSED,
        "The tool is unavailable",
        "The tool t is unavailable.",
        "The tool box is unavailable (circuit open to traffic)",
        "The tool t was not called: no such tool.",
        "The tool t did not answer within 5 s. Do not repeat the call at once: it may still take effect.",
        "Your last call of t was rejected.",
        "The server is recovering",
    ],
)
def test_other_texts_are_not_refusals(text):
    assert not is_refusal(text)


def test_text_that_is_almost_a_refusal_again_and_again_is_read_quickly():
    pieces = [
        "The tool ",
        "The tool a is unavailable: its server ",
        "The tool a was not called: ",
        "Your credentials for the server a of the tool ",
        "The server ",
        "Your last call of a was rejected",
    ]
    before = time.process_time()
    for piece in pieces:
        assert not is_refusal((piece * MAX_TEXT)[:MAX_TEXT])
    assert time.process_time() - before < 2


@table("rejection", REJECTIONS, ids=str)
def test_what_a_guard_writes_another_guard_ignores(rejection):
    meta = json.loads(json.dumps({META_KEY: written(rejection)}))
    assert read_tool_failure(meta) == IGNORE
    assert classify_result(failed(REFUSED, _meta=meta)) == IGNORE
    assert by_text(failed(REFUSED, _meta=meta)) == IGNORE


@table("rejection", SIGNED_OUT, ids=str)
def test_refused_credential_is_class_auth_for_another_guard_and_its_text_alone_is_policy(rejection):
    meta = json.loads(json.dumps({META_KEY: written(rejection)}))
    assert read_tool_failure(meta) == Classification("auth")
    assert classify_result(failed(rejection.text, _meta=meta)) == Classification("auth")
    assert classify_result(failed(rejection.text)) == IGNORE


def test_open_circuit_is_written_as_a_passing_fault_with_its_wait():
    assert written(Rejection("t", "open", "local", retry_after_s=12.5)) == {
        "class": "reliability",
        "code": "circuit_open",
        "retryable": True,
        "retryNotBefore": 1_790_000_012_750,
        "correlationId": "c7",
        "agentGuidance": "The tool t is unavailable (circuit open). Do not call it again within the next 13 s.",
    }


@pytest.mark.parametrize(
    ("source", "failure_class", "code"),
    [
        ("fleet", "reliability", "circuit_open"),
        ("session", "governance", "session_exhausted"),
        ("duplicate", "governance", "duplicate_call"),
        ("caller", "capability", "caller_errors"),
        ("credential", "governance", "auth_required"),
    ],
)
def test_refusal_without_a_wait_is_not_retryable(source, failure_class, code):
    found = written(Rejection("t", "open", source))
    assert (found["class"], found["code"], found["retryable"]) == (failure_class, code, False)
    assert "retryNotBefore" not in found


def test_only_an_open_circuit_is_retryable():
    assert written(Rejection("t", "open", "session", retry_after_s=5.0))["retryable"] is False


@table(
    ("failure", "expected"),
    [
        ({"class": "reliability", "code": "retryable_transient_error"}, Classification("server")),
        ({"class": "reliability", "code": "x", "retryable": True}, Classification("server")),
        ({"class": "reliability", "code": "x", "retryNotBefore": (NOW + 30) * 1000}, Classification("server")),
        (
            {"class": "reliability", "code": "x", "retryable": True, "retryNotBefore": (NOW + 30) * 1000},
            Classification("server", 30.0),
        ),
        (
            {"class": "reliability", "code": "x", "retryable": True, "retryNotBefore": (NOW - 30) * 1000},
            Classification("server", 0.0),
        ),
        ({"class": "capability", "code": "capability_unsupported"}, Classification("tool")),
        ({"class": "capability", "code": "resource_not_found"}, Classification("invalid_input")),
        ({"class": "capability", "code": "invalid_input"}, Classification("invalid_input")),
        ({"class": "governance", "code": "auth_required"}, Classification("auth")),
        ({"class": "governance", "code": "permission_denied"}, Classification("auth")),
        ({"class": "governance", "code": "policy_blocked"}, IGNORE),
        ({"class": "governance", "code": "user_action_required"}, IGNORE),
        ({"class": "governance", "code": "new"}, IGNORE),
    ],
)
def test_failure_that_another_server_writes_has_its_class(failure, expected):
    assert read_tool_failure({META_KEY: failure}, now=lambda: NOW) == expected


@table("not_before", [None, "2026-11-25T00:00:00Z", True, float("nan"), float("inf"), 10**400, -(10**400)])
def test_unreadable_wait_of_another_server_is_left_out(not_before):
    failure = {"class": "reliability", "code": "x", "retryable": True, "retryNotBefore": not_before}
    assert read_tool_failure({META_KEY: failure}) == Classification("server")


@table(
    "meta",
    [
        None,
        "x",
        [],
        {},
        {META_KEY: None},
        {META_KEY: "circuit_open"},
        {META_KEY: {}},
        {META_KEY: {"class": "reliability"}},
        {META_KEY: {"code": "circuit_open"}},
        {META_KEY: {"class": ["reliability"], "code": "x"}},
        {META_KEY: {"class": "reliability", "code": 5}},
        {META_KEY: {"class": "new", "code": "x"}},
    ],
)
def test_malformed_or_unknown_failure_is_left_out(meta):
    assert read_tool_failure(meta) is None
    assert classify_result(failed(_meta=meta)) == Classification("tool")
    assert by_text(failed(REFUSED, _meta=meta)) == Classification("transport")


@given(
    st.dictionaries(
        st.sampled_from(["class", "code", "retryable", "retryNotBefore"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["reliability", "x"]),
    )
)
def test_reading_a_failure_never_raises_and_gives_a_possible_wait(failure):
    found = read_tool_failure({META_KEY: failure})
    assert found is None or found.retry_after_s is None or 0 <= found.retry_after_s < float("inf")


def test_meta_of_a_result_that_is_not_a_failure_is_not_read():
    meta = {META_KEY: {"class": "reliability", "code": "x"}}
    assert classify_result(failed(_meta=meta) | {"isError": False}) is None


@pytest.mark.parametrize("key", ["_meta", "meta"])
def test_meta_of_a_failed_result_decides_before_its_text(key):
    meta = {META_KEY: {"class": "capability", "code": "invalid_input"}}
    assert by_text(failed(REFUSED, **{key: meta})) == Classification("invalid_input")


class Weather:
    """A real MCP server with a guard inside, whose database is down."""

    def __init__(self, *, structured: bool) -> None:
        self.gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=2))
        self.server = MCPServer("weather")
        self.refusals = 0

        @self.gear.guard("database")
        def read() -> str:
            raise ConnectionRefusedError(111, "Connection refused")

        @self.server.tool()
        def get_forecast(city: str) -> mcp_types.CallToolResult:
            try:
                text, meta = read(), None
            except CircuitOpenError as refused:
                self.refusals += 1
                text, meta = refused.text, {META_KEY: written(refused.rejection, time.time())} if structured else None
            except ConnectionError as error:
                text, meta = f"no forecast for {city}: {error}", None
            return mcp_types.CallToolResult(
                content=[mcp_types.TextContent(type="text", text=text)], is_error=True, _meta=meta
            )


@pytest.mark.parametrize("structured", [True, False])
async def test_refusals_of_a_guard_inside_a_server_do_not_open_the_circuit_in_front_of_it(structured):
    weather = Weather(structured=structured)
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=3))
    async with mcp.Client(weather.server) as client:

        @gear.guard("mcp:weather:get_forecast", classify_result=by_text)
        async def get_forecast(city):
            return await client.call_tool("get_forecast", {"city": city})

        for _ in range(12):
            result = await get_forecast("Oslo")
            assert result.is_error
    assert weather.refusals == 10, "the circuit inside opened after two failures"
    assert gear.status().local == {}, "the circuit in front stayed closed"
