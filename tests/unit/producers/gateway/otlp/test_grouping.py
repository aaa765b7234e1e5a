"""A call that several spans describe counts once."""

from __future__ import annotations

import itertools

import pytest

from switchgear_gateway.otlp.grouping import CallWindow, CountedCall, SeenCall
from switchgear_gateway.otlp.mappings import of_span
from switchgear_gateway.otlp.records import spans_of
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import (
    CLIENT,
    MCP,
    SERVER,
    TOOL,
    Kafka,
    sample,
    span_request,
)


def add(window, request, *, now=0.0, tenant="") -> list[CountedCall]:
    spans = list(spans_of(request))
    sender = Kafka().sender(tenant)
    mapped = [(span, of_span(span)) for span in spans]
    window.note(tenant, spans)
    calls = [SeenCall.of(span, found, sender) for span, found in mapped if found]
    return [each for of_trace in window.add(calls, now) for each in of_trace]


def due(window, now) -> list[CountedCall]:
    return [each for of_trace in window.due(now) for each in of_trace]


def outcomes(counted):
    return sorted(each.execution.error_class or each.execution.status for each in counted)


FRAMEWORK = {"id": 1, "at": 0, "until": 100}
CLIENT_SPAN = {"id": 2, "parent": 1, "kind": CLIENT, "at": 1, "until": 99, "attributes": MCP}
SERVER_SPAN = {
    "id": 3,
    "parent": 2,
    "kind": SERVER,
    "at": 2,
    "until": 98,
    "attributes": MCP | {"fastmcp.server.name": "weather"},
}


def test_a_framework_a_client_and_a_server_in_one_export_are_one_call_under_the_servers_name():
    window = CallWindow()
    (counted,) = add(window, span_request(FRAMEWORK, CLIENT_SPAN, SERVER_SPAN))
    assert counted.execution.tool_name == "mcp:weather:get_forecast"
    assert counted.execution.execution_time_ms == 100
    assert window.copies == 2
    assert due(window, 1000.0) == []


@table("order", list(itertools.permutations([FRAMEWORK, CLIENT_SPAN, SERVER_SPAN])))
def test_spans_of_one_call_in_three_exports_are_one_call_in_any_order(order):
    window = CallWindow()
    counted = [each for span in order for each in add(window, span_request(span))]
    counted += due(window, 1000.0)
    assert len(counted) == 1


def test_three_real_calls_through_pydantic_ai_fastmcp_and_the_mcp_sdk_are_three():
    window = CallWindow()
    counted = add(window, sample("pydantic_ai_mcp"))
    assert {each.execution.tool_name for each in counted} == {"mcp:weather:get_forecast"}
    assert outcomes(counted) == ["invalid_input", "invalid_input", "success"]
    assert {each.execution.session_id for each in counted} == {"session-7"}


def test_three_real_calls_through_fastmcp_are_three():
    counted = add(CallWindow(), sample("fastmcp"))
    assert [each.execution.tool_name for each in counted] == ["mcp:weather:get_forecast"] * 3
    assert outcomes(counted) == ["success", "tool", "tool"]


def test_three_real_calls_through_the_mcp_sdk_are_three_after_the_wait_and_failed_as_the_server_says():
    window = CallWindow()
    assert add(window, sample("mcp_sdk"), now=0.0) == []
    assert window.waiting == 6
    counted = due(window, 6.0)
    assert outcomes(counted) == ["success", "tool", "tool"]
    assert window.waiting == 0


@table("order", list(itertools.permutations(range(22), 2))[:40:3])
def test_real_calls_are_three_when_their_spans_arrive_in_two_exports(order):
    whole = sample("pydantic_ai_mcp")
    scopes = list(whole.resource_spans[0].scope_spans)
    window = CallWindow()
    counted = []
    for part in (scopes[order[0] % 3 :], scopes[: order[0] % 3]):
        request = type(whole)()
        request.resource_spans.add().scope_spans.extend(part)
        counted += add(window, request)
    counted += due(window, 100.0)
    assert len(counted) == 3


def test_concurrent_calls_of_the_same_tool_in_one_trace_are_several():
    spans = [
        {"id": number, "parent": 99, "attributes": TOOL | {"gen_ai.tool.call.id": f"c{number}"}} for number in (1, 2, 3)
    ]
    assert len(add(CallWindow(), span_request({"id": 99, "attributes": {"x": 1}}, *spans))) == 3


def test_calls_of_one_agent_run_in_several_exports_are_several():
    window = CallWindow()
    for number in (1, 2, 3):
        assert len(add(window, span_request({"id": number, "parent": 99}))) == 1
    assert add(window, span_request({"id": 99, "attributes": {"gen_ai.operation.name": "invoke_agent"}})) == []


def test_a_tool_that_calls_another_tool_is_two_calls():
    inner = {"id": 2, "parent": 1, "attributes": TOOL | {"gen_ai.tool.name": "geocode"}}
    assert len(add(CallWindow(), span_request(FRAMEWORK, inner))) == 2


def test_spans_between_the_caller_and_the_server_that_are_no_calls_connect_them():
    http = {"id": 5, "parent": 1, "attributes": {"http.request.method": "POST"}}
    assert len(add(CallWindow(), span_request(FRAMEWORK, http, SERVER_SPAN | {"parent": 5}))) == 1
    window = CallWindow()
    assert len(add(window, span_request(FRAMEWORK))) == 1
    assert add(window, span_request(http)) == []
    assert add(window, span_request(SERVER_SPAN | {"parent": 5})) == []
    assert due(window, 1000.0) == []


def test_a_caller_that_arrives_after_its_server_counted_is_dropped_even_through_another_span():
    window = CallWindow()
    assert add(window, span_request(SERVER_SPAN | {"parent": 5}), now=0.0) == []
    assert len(due(window, 6.0)) == 1
    http = {"id": 5, "parent": 1, "attributes": {"http.request.method": "POST"}}
    assert add(window, span_request(http, FRAMEWORK), now=7.0) == []


def test_a_server_whose_caller_is_not_traced_counts_at_once():
    alone = {name: value for name, value in SERVER_SPAN.items() if name != "parent"}
    assert len(add(CallWindow(), span_request(alone))) == 1


def test_a_server_whose_callers_span_never_arrives_counts_after_the_wait():
    window = CallWindow(wait_s=6)
    assert add(window, span_request(SERVER_SPAN), now=10.0) == []
    assert window.waiting_since == 10.0
    assert due(window, 15.9) == []
    (counted,) = due(window, 16.0)
    assert counted.execution.tool_name == "mcp:weather:get_forecast"
    assert window.waiting_since is None


def test_each_span_of_a_trace_waits_its_own_time():
    window = CallWindow(wait_s=6)
    add(window, span_request(SERVER_SPAN), now=0.0)
    add(window, span_request(SERVER_SPAN | {"id": 13, "parent": 12}), now=5.0)
    assert len(due(window, 6.0)) == 1
    assert due(window, 10.9) == []
    assert len(due(window, 11.0)) == 1


def test_an_export_that_is_sent_twice_counts_once():
    window = CallWindow()
    assert len(add(window, span_request(FRAMEWORK))) == 1
    assert add(window, span_request(FRAMEWORK)) == []


def test_the_copy_of_a_span_within_one_export_counts_once():
    assert len(add(CallWindow(), span_request(FRAMEWORK, FRAMEWORK))) == 1


def test_a_forgotten_call_counts_when_it_arrives_again():
    window = CallWindow()
    (counted,) = add(window, span_request(FRAMEWORK, CLIENT_SPAN))
    window.forget(counted)
    (again,) = add(window, span_request(FRAMEWORK, CLIENT_SPAN))
    assert again.execution.metric_id == counted.execution.metric_id


def test_the_same_trace_of_two_tenants_is_two_calls():
    window = CallWindow()
    assert len(add(window, span_request(FRAMEWORK), tenant="a")) == 1
    assert len(add(window, span_request(FRAMEWORK), tenant="b")) == 1


def test_two_libraries_that_instrument_one_framework_are_one_call_by_the_call_id():
    one = {"id": 1, "at": 0, "until": 100, "attributes": TOOL | {"gen_ai.tool.call.id": "c1"}}
    other = {
        "id": 2,
        "at": 1,
        "until": 99,
        "attributes": {"openinference.span.kind": "TOOL", "tool.name": "get_forecast", "tool_call.id": "c1"},
    }
    assert len(add(CallWindow(), span_request(one, other))) == 1


def test_overlapping_spans_with_one_call_id_are_one_call_also_in_two_exports():
    window = CallWindow()
    one = {"id": 1, "parent": 9, "at": 0, "until": 100, "attributes": TOOL | {"gen_ai.tool.call.id": "c1"}}
    other = one | {"id": 2, "at": 1, "until": 99}
    (counted,) = add(window, span_request(one))
    assert add(window, span_request(other)) == []
    assert window.copies == 1
    assert len(add(window, span_request(other | {"id": 3, "at": 150, "until": 200}))) == 1
    assert len(add(window, span_request(other | {"id": 4, "trace": b"another trace id"}))) == 1
    window = CallWindow()
    (counted,) = add(window, span_request(one))
    window.forget(counted)
    assert len(add(window, span_request(other))) == 1


def test_a_retry_with_the_same_call_id_is_a_second_call():
    one = {"id": 1, "at": 0, "until": 100, "error": "x", "attributes": TOOL | {"gen_ai.tool.call.id": "c1"}}
    assert len(add(CallWindow(), span_request(one, one | {"id": 2, "at": 150, "until": 200}))) == 2


def test_a_failure_that_a_framework_hides_is_a_failure():
    failed = CLIENT_SPAN | {"error": "refused", "attributes": MCP | {"error.type": "ConnectionError"}}
    (counted,) = add(CallWindow(), span_request(FRAMEWORK, failed))
    assert (counted.execution.status, counted.execution.error_class) == ("error", "transport")


def test_an_outage_says_more_than_the_word_of_the_framework():
    framework = FRAMEWORK | {"error": "tool failed"}
    failed = CLIENT_SPAN | {"error": "failed", "attributes": MCP | {"error.type": "httpx.ConnectError"}}
    (counted,) = add(CallWindow(), span_request(framework, failed))
    assert counted.execution.error_class == "transport"


def test_a_span_that_knows_the_kind_of_error_says_more_than_one_that_hides_it():
    framework = FRAMEWORK | {"error": "ConnectError('no route')"}
    failed = CLIENT_SPAN | {"error": "failed", "attributes": MCP | {"error.type": "tool_error"}}
    (counted,) = add(CallWindow(), span_request(framework, failed))
    assert (counted.execution.error_class, counted.execution.evidence) == ("tool", "full")
    (alone,) = add(CallWindow(), span_request(framework))
    assert (alone.execution.error_class, alone.execution.evidence) == ("transport", "status_only")


def test_a_failed_send_of_the_mcp_sdk_does_not_wait():
    failed = CLIENT_SPAN | {"scope": "mcp-python-sdk", "error": "Connection closed"}
    assert len(add(CallWindow(), span_request(failed))) == 1


def test_more_waiting_spans_than_the_limit_count_at_once():
    window = CallWindow(most_waiting=3)
    servers = [SERVER_SPAN | {"id": number, "parent": 100 + number} for number in range(10, 20)]
    assert len(add(window, span_request(*servers))) == 7
    assert window.waiting == 3


@pytest.mark.slow
def test_the_window_remembers_a_bounded_number_of_spans():
    window = CallWindow(remembered=10)
    for number in range(1, 200):
        attributes = TOOL | {"gen_ai.tool.call.id": f"c{number}"}
        add(window, span_request({"id": number, "parent": 5000 + number, "attributes": attributes}))
    assert max(len(window._counted), len(window._covered), len(window._parents), len(window._times)) == 10


def test_a_span_over_calls_of_very_many_tools_remembers_a_bounded_number_of_them():
    window = CallWindow()
    calls = [
        {"id": number, "parent": 9_999, "attributes": TOOL | {"gen_ai.tool.name": f"t{number}"}}
        for number in range(1, 200)
    ]
    assert len(add(window, span_request(*calls))) == 199
    assert max(map(len, window._covered.values())) == 64


def test_a_span_that_waits_keeps_nothing_of_its_attributes():
    window = CallWindow()
    long = {"gen_ai.conversation.id": "x" * 100_000, "user.id": "x" * 100_000, "arguments": "x" * 100_000}
    resource = {"service.name": "agent", "process.command_line": "x" * 100_000}
    assert add(window, span_request(SERVER_SPAN | {"attributes": MCP | long}, resource=resource)) == []
    ((waiting,),) = window._waiting.values()
    held = [getattr(waiting.call, name) for name in waiting.call.__slots__]
    assert len(repr(held)) < 10_000
    assert waiting.call.execution.session_id == "x" * 256


def test_the_parents_of_spans_whose_ids_have_a_wrong_length_are_not_remembered():
    window = CallWindow()
    add(window, span_request({"id": 1, "parent": 2, "trace": b"x" * 100_000, "attributes": {"x": 1}}))
    assert not window._parents


def test_a_cycle_of_parents_ends():
    one, other = FRAMEWORK | {"parent": 2}, {"id": 2, "parent": 1, "attributes": {"x": 1}}
    assert len(add(CallWindow(), span_request(one, other))) == 1
