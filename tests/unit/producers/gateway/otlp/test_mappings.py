"""Each mapping, by what the real instrumentation libraries exported."""

from __future__ import annotations

import pytest

from switchgear_gateway.otlp.executions import UnusableRecordError
from tests.support.snippets import REPOSITORY
from tests.support.table import table
from tests.unit.producers.gateway.otlp.support import (
    SAMPLES,
    TOOL,
    calls_in,
    log_request,
    log_sample,
    logged_calls_in,
    put,
    sample,
    span_request,
)

EXPECTED = {
    "agent_framework": ("otel-genai/1.41", "get_forecast", ["success", "transport", "invalid_input"]),
    "google_adk": ("otel-genai/1.41", "get_forecast", ["success", "transport", "tool"]),
    "langsmith": ("otel-genai/1.41", "get_forecast", ["success", "transport", "invalid_input"]),
    "langfuse": ("langfuse/5", "get_forecast", ["success", "unknown", "unknown"] * 2),
    "openinference_langchain": ("openinference/0.1", "get_forecast", ["success", "transport", "invalid_input"]),
    "openinference_openai_agents": ("openinference/0.1", "get_forecast", ["success", "unknown", "unknown"]),
    "openllmetry_decorator": ("openllmetry/0.62", "get_forecast", ["success", "transport", "invalid_input"]),
    "openllmetry_langchain": ("openllmetry/0.62", "get_forecast", ["success", "transport", "invalid_input"]),
    "pydantic_ai": ("otel-genai/1.41", "get_forecast", ["success", "transport", "invalid_input"]),
    "vercel_ai_5": ("vercel-ai/5", "getForecast", ["success", "transport"]),
    "vercel_ai_7": ("otel-genai/1.41", "getForecast", ["success", "transport"]),
}


@table("name", EXPECTED)
def test_the_tool_calls_of_a_library_are_recognised_with_their_outcomes(name):
    convention, tool, outcomes = EXPECTED[name]
    calls = calls_in(sample(name))
    assert {(each.metadata["otlp"], each.tool_name) for each in calls} == {(convention, tool)}
    assert sorted(each.error_class or each.status for each in calls) == sorted(outcomes)


@table("name", EXPECTED)
def test_no_argument_and_no_result_is_kept(name):
    kept = "".join(each.model_dump_json() for each in calls_in(sample(name)))
    assert not any(private in kept for private in ("Oslo", "Rome", "Atlantis", "sun in"))


@table("name", EXPECTED)
def test_a_second_export_of_the_same_spans_has_the_same_metric_ids_and_no_two_are_equal(name):
    first, second = calls_in(sample(name)), calls_in(sample(name))
    assert [each.metric_id for each in first] == [each.metric_id for each in second]
    assert len({each.metric_id for each in first}) == len(first)
    assert {each.metric_id.version for each in first} == {8}


@table(
    "name",
    [
        "langfuse",
        "langsmith",
        "openinference_langchain",
        "openinference_openai_agents",
        "openllmetry_decorator",
        "openllmetry_langchain",
        "pydantic_ai",
        "vercel_ai_5",
    ],
)
def test_the_agents_session_is_kept(name):
    assert {each.session_id for each in calls_in(sample(name))} == {"session-7"}


@pytest.mark.parametrize("name", ["agent_framework", "pydantic_ai", "vercel_ai_5", "vercel_ai_7"])
def test_the_call_id_of_the_model_is_kept(name):
    assert {"call_oslo", "call_rome"} <= {each.metadata["call_id"] for each in calls_in(sample(name))}


def test_tokens_and_a_duration_beyond_what_a_call_has_are_cut_and_the_call_is_kept():
    attributes = TOOL | {"gen_ai.usage.input_tokens": 2**62, "gen_ai.usage.output_tokens": 3}
    (call,) = calls_in(span_request({"id": 1, "attributes": attributes}))
    assert (call.input_tokens, call.output_tokens) == (10**9, 3)
    (call,) = logged_calls_in(log_request("claude_code.tool_result", CLAUDE | {"duration_ms": "1e300"}))
    assert call.execution_time_ms == 31_536_000_000


@pytest.mark.parametrize("placeholder", ["unknown", "<not specified>"])
def test_the_words_of_a_library_for_no_call_id_are_none(placeholder):
    (call,) = calls_in(span_request({"id": 1, "attributes": TOOL | {"gen_ai.tool.call.id": placeholder}}))
    assert "call_id" not in call.metadata


def test_times_and_trace_context_are_those_of_the_span():
    (call,) = calls_in(span_request({"id": 7, "at": 0, "until": 250}))
    assert call.execution_time_ms == 250
    assert call.recorded_at.timestamp() == pytest.approx(1_790_000_000.250)
    assert call.traceparent == "00-000102030405060708090a0b0c0d0e0f-0000000000000007-01"


def test_the_process_is_the_emitter_so_that_failures_of_several_processes_are_told_apart():
    resource = {"service.name": "agent", "host.name": "node-3", "process.pid": 41}
    (call,) = calls_in(span_request({"id": 1}, resource=resource))
    assert (call.service, call.emitter_id) == ("agent", "agent@node-3-41")
    (call,) = calls_in(span_request({"id": 1}, resource={"service.name": "agent", "service.instance.id": "pod-9"}))
    assert call.emitter_id == "agent@pod-9"


def test_the_placeholder_that_the_sdk_names_a_service_by_is_no_service():
    (call,) = calls_in(span_request({"id": 1}, resource={"service.name": "unknown_service:python"}))
    assert call.service == ""


def test_a_span_that_a_guard_of_switchgear_wrote_on_is_left_to_the_guards_own_event():
    guarded = TOOL | {"switchgear.circuit.state": "closed"}
    assert calls_in(span_request({"id": 1, "attributes": guarded})) == []


def test_model_calls_agent_runs_and_other_spans_are_not_tool_calls():
    others = [
        {"gen_ai.operation.name": "chat"},
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.tool.name": "x"},
        {"openinference.span.kind": "LLM"},
        {"langfuse.observation.type": "generation"},
        {"traceloop.span.kind": "workflow"},
        {"ai.operationId": "ai.generateText"},
        {"mcp.method.name": "tools/list"},
        {"http.request.method": "GET"},
    ]
    assert calls_in(span_request(*({"id": number, "attributes": each} for number, each in enumerate(others, 1)))) == []


def test_a_tool_span_without_an_operation_is_recognised_by_its_call_id():
    attributes = {"gen_ai.tool.name": "search", "gen_ai.tool.call.id": "call_1"}
    (call,) = calls_in(span_request({"id": 1, "attributes": attributes}))
    assert call.tool_name == "search"


def test_tokens_on_the_span_are_kept():
    attributes = TOOL | {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3}
    (call,) = calls_in(span_request({"id": 1, "attributes": attributes}))
    assert (call.input_tokens, call.output_tokens) == (12, 3)


@table(
    ("kind", "attributes", "resource", "tool"),
    [
        (2, {"fastmcp.server.name": "weather"}, {"service.name": "svc"}, "mcp:weather:get_forecast"),
        (2, {}, {"service.name": "weather-server"}, "mcp:weather-server:get_forecast"),
        (2, {}, {"service.name": "unknown_service"}, "get_forecast"),
        (3, {"server.address": "weather.example.com", "server.port": 443}, {}, "mcp:weather.example.com:get_forecast"),
        (3, {"server.address": "localhost", "server.port": 8001}, {}, "mcp:localhost-8001:get_forecast"),
        (3, {"server.address": "::1"}, {}, "mcp:--1:get_forecast"),
        (3, {}, {"service.name": "agent"}, "get_forecast"),
    ],
)
def test_the_name_of_an_mcp_tool_has_the_server_where_the_span_names_one(kind, attributes, resource, tool):
    mcp = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_forecast"} | attributes
    (call,) = calls_in(span_request({"id": 1, "kind": kind, "attributes": mcp}, resource=resource))
    assert call.tool_name == tool


def test_the_tool_of_a_client_span_of_the_mcp_sdk_is_in_its_name_only():
    names = {each.tool_name for each in calls_in(sample("mcp_sdk"))}
    assert names == {"mcp:weather-agent:get_forecast", "get_forecast"}


def test_a_framework_that_names_mcp_tools_like_claude_gets_the_same_circuit():
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "mcp__github__search_code"}
    (call,) = calls_in(span_request({"id": 1, "attributes": attributes}))
    assert call.tool_name == "mcp:github:search_code"


def _adk(attributes, **more):
    call = TOOL | {"gen_ai.tool.type": "McpTool"} | attributes
    return span_request({"id": 1, "scope": "gcp.vertex.agent", "attributes": call} | more)


DIED = '{"error": "MCP tool execution failed: Connection closed"}'


@table(
    ("attributes", "outcome"),
    [
        ({"error.type": "MCP_TOOL_ERROR"}, "tool"),
        ({"error.type": "SKILL_IS_BUSY"}, "tool"),
        ({"error.type": "503"}, "server"),
        ({"gcp.vertex.agent.tool_response": DIED}, "transport"),
        ({"gen_ai.tool.call.result": DIED}, "transport"),
        ({"gcp.vertex.agent.tool_response": DIED, "gen_ai.tool.type": "FunctionTool"}, "success"),
        ({"gcp.vertex.agent.tool_response": '{"error": "MCP tool execution failed: no such city"}'}, "success"),
        ({"gcp.vertex.agent.tool_response": '{"error": ["' + "x" * 100_000 + '"]}'}, "success"),
        ({"gcp.vertex.agent.tool_response": '{"error": 7}'}, "success"),
        ({"gcp.vertex.agent.tool_response": '{"error"'}, "success"),
        ({"gcp.vertex.agent.tool_response": '{"error":' + "[" * 3_900}, "success"),
        ({"gcp.vertex.agent.tool_response": "{}"}, "success"),
    ],
)
def test_an_error_that_adk_handled_is_the_tools_unless_its_mcp_client_had_no_answer(attributes, outcome):
    (call,) = calls_in(_adk(attributes))
    assert (call.error_class or call.status) == outcome


def test_an_exception_of_a_tool_of_adk_is_judged_by_its_type():
    request = _adk({"error.type": "KeyError"}, error="KeyError")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.events.add(name="exception").attributes.add(key="exception.type").value.string_value = "KeyError"
    (call,) = calls_in(request)
    assert call.error_class == "unknown"


def test_of_several_exceptions_of_a_span_the_last_one_is_judged_because_a_retry_records_each():
    request = span_request({"id": 1, "error": ""})
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for kind in ("TimeoutError", "httpx.ConnectError"):
        put(span.events.add(name="exception").attributes, {"exception.type": kind})
    span.events.add(name="log")
    (call,) = calls_in(request)
    assert (call.error_class, call.error_type) == ("transport", "httpx.ConnectError")


SOURCES = {
    "Agent Framework": "agent_framework",
    "FastMCP": "fastmcp",
    "Google ADK: exceptions": "google_adk",
    "LangChain, by LangSmith's exporter": "langsmith",
    "LangChain, by OpenInference": "openinference_langchain",
    "LangChain, by OpenLLMetry": "openllmetry_langchain",
    "Langfuse: `@observe` and its handler for LangChain": "langfuse",
    "MCP SDK": "mcp_sdk",
    "OpenAI Agents, by OpenInference": "openinference_openai_agents",
    "Traceloop's `@tool`": "openllmetry_decorator",
    "Vercel AI SDK 5 and 6": "vercel_ai_5",
    "Vercel AI SDK 7": "vercel_ai_7",
    "pydantic-ai": "pydantic_ai",
}
"""Sources in the table of the documentation, and their samples."""


def _documented():
    page = (REPOSITORY / "docs/reference/otlp.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    header = next(number for number, row in enumerate(rows) if row[0] == "source")
    return {
        row[0]: dict(zip(rows[header], row, strict=True)) for row in rows[header + 1 :] if len(row) == len(rows[header])
    }


@table(("source", "name"), list(SOURCES.items()))
def test_the_table_of_sources_says_what_the_samples_show(source, name):
    row, calls = _documented()[source], calls_in(sample(name))
    failed = [each for each in calls if each.status != "success"]
    hides = any(each.evidence == "status_only" for each in failed)
    assert row["quality"].startswith("status only" if hides else "full")
    named = [each.error_type is not None for each in failed]
    assert (len(row["type of the error"]) > 1) is any(named)  # else a dash
    assert row["session"].startswith("yes") or not any(each.session_id for each in calls)


def test_every_sample_of_spans_has_a_row_in_the_table_of_sources():
    logs = {*AGENTS, "pydantic_ai_mcp"}
    assert {path.stem for path in SAMPLES.glob("*.pb")} - logs == set(SOURCES.values())


AGENTS = {
    "claude_code": [
        ("Bash", "tool"),
        ("mcp:weather:get_forecast", "success"),
        ("mcp:weather:get_forecast", "tool"),
    ],
    "codex_cli": [
        ("exec_command", "success"),
        ("mcp:weather:get_forecast", "success"),
        ("mcp:weather:get_forecast", "tool"),
    ],
    "gemini_cli": [
        ("run_shell_command", "tool"),
        ("mcp:weather:get_forecast", "success"),
        ("mcp:weather:get_forecast", "tool"),
    ],
}


@pytest.mark.parametrize("name", AGENTS)
def test_the_tool_calls_that_a_coding_agent_logged_are_recognised_with_their_outcomes(name):
    calls = logged_calls_in(log_sample(name))
    assert [(each.tool_name, each.error_class or each.status) for each in calls] == AGENTS[name]
    assert len({each.metric_id for each in calls}) == 3
    assert len({each.session_id for each in calls}) == 1
    assert all(each.execution_time_ms > 0 for each in calls)


@pytest.mark.parametrize("name", AGENTS)
def test_no_argument_and_no_output_of_a_coding_agent_is_kept(name):
    kept = "".join(each.model_dump_json() for each in logged_calls_in(log_sample(name)))
    assert not any(private in kept for private in ("Oslo", "Rome", "sunny", "sleep", "exit 3"))


@table(
    ("span", "attributes", "tool"),
    [
        ("lookup.__call__", {}, "lookup"),
        ("lookup.acall", {}, "lookup"),
        ("mcp__github__search.__call__", {}, "mcp:github:search"),
        ("lookup.__call__.__call__", {}, "lookup.__call__"),
        ("lookup.__call__", {"tool.name": "find.__call__"}, "find.__call__"),
        ("__call__", {}, "__call__"),
    ],
)
def test_a_span_that_dspy_named_after_a_method_is_of_the_tool(span, attributes, tool):
    attributes = {"openinference.span.kind": "TOOL"} | attributes
    (call,) = calls_in(span_request({"id": 1, "name": span, "attributes": attributes}))
    assert call.tool_name == tool


def test_a_span_that_is_named_after_a_method_alone_has_no_tool():
    nameless = span_request({"id": 1, "name": ".__call__", "attributes": {"openinference.span.kind": "TOOL"}})
    with pytest.raises(UnusableRecordError, match="no name"):
        calls_in(nameless)


def test_an_mcp_tool_that_claude_code_does_not_name_is_refused_with_what_to_set():
    with pytest.raises(UnusableRecordError, match="OTEL_LOG_TOOL_DETAILS=1"):
        logged_calls_in(log_request("claude_code.tool_result", CLAUDE | {"tool_name": "mcp_tool"}))
    cut = CLAUDE | {"tool_name": "mcp_tool", "tool_parameters": '{"mcp_server_name":"wea'}
    with pytest.raises(UnusableRecordError, match="OTEL_LOG_TOOL_DETAILS=1"):
        logged_calls_in(log_request("claude_code.tool_result", cut))


CLAUDE = {
    "tool_name": "mcp__weather__get_forecast",
    "success": "false",
    "duration_ms": "1200",
    "session.id": "s-1",
    "tool_use_id": "toolu_1",
}


def test_a_result_that_claude_code_logs_is_a_call():
    (call,) = logged_calls_in(log_request("tool_result", CLAUDE, scope="com.anthropic.claude_code.events"))
    assert (call.tool_name, call.status, call.error_class) == ("mcp:weather:get_forecast", "error", "tool")
    assert (call.execution_time_ms, call.session_id, call.metadata["call_id"]) == (1200, "s-1", "toolu_1")


@table(
    ("error", "error_class"),
    [
        ("MCP error -32000: Connection closed", "transport"),
        ("MCP error -32001: Request timed out", "timeout"),
        ("fetch failed", "tool"),
        ("The page says: MCP error -32000: Connection closed", "tool"),
    ],
)
def test_a_failure_that_claude_code_logs_is_the_tools_unless_its_client_says_that_there_was_no_answer(
    error, error_class
):
    (call,) = logged_calls_in(log_request("claude_code.tool_result", CLAUDE | {"error": error}))
    assert call.error_class == error_class


def test_a_failed_shell_command_of_a_coding_agent_never_counts_whatever_its_text_says():
    for event, attributes in (
        ("claude_code.tool_result", {"tool_name": "Bash", "success": "false", "error": "connection refused"}),
        ("codex.tool_result", {"tool_name": "shell", "success": "false", "output": "connection refused"}),
        ("gemini_cli.tool_call", {"function_name": "run_shell_command", "success": False, "error": "timed out"}),
    ):
        (call,) = logged_calls_in(log_request(event, attributes))
        assert (call.status, call.error_class) == ("error", "tool"), event


def test_a_call_that_the_user_rejected_is_cancelled():
    for event, attributes in (
        ("claude_code.tool_result", {"tool_name": "Bash", "success": "false", "decision_type": "reject"}),
        ("gemini_cli.tool_call", {"function_name": "edit", "success": False, "decision": "reject"}),
    ):
        (call,) = logged_calls_in(log_request(event, attributes))
        assert (call.status, call.error_class) == ("cancelled", "cancelled"), event


CODEX = {
    "tool_name": "get_forecast",
    "mcp_server": "weather",
    "call_id": "call_1",
    "conversation.id": "c-1",
    "duration_ms": "35",
    "success": "false",
    "arguments": '{"city": "Rome"}',
    "output": "Rome: connection refused",
}


def test_a_result_that_codex_logs_is_a_call_and_its_output_is_not_kept():
    (call,) = logged_calls_in(log_request("codex.tool_result", CODEX))
    assert (call.tool_name, call.error_class, call.session_id) == ("mcp:weather:get_forecast", "tool", "c-1")
    assert "Rome" not in call.model_dump_json()


CODING_AGENT = {"service.name": "claude-code"}


def emitter(attributes, resource=CODING_AGENT):
    (call,) = logged_calls_in(log_request("claude_code.tool_result", CLAUDE | attributes, resource=resource))
    return call.emitter_id


def test_two_installations_without_resource_attributes_are_two_reporters():
    one, other = emitter({"user.id": "ana"}), emitter({"user.id": "bo"})
    assert one != other
    assert one.startswith("claude-code@~")
    assert "ana" not in one
    assert emitter({"user.id": "ana"}, {}).startswith("~")


def test_a_derived_emitter_is_the_same_in_every_session_of_a_user_and_else_that_of_the_session():
    assert emitter({"user.id": "ana"}) == emitter({"user.id": "ana", "session.id": "s-2", "event.sequence": "7"})
    assert emitter({}) == emitter({"event.sequence": "7"}) != emitter({"session.id": "s-2"})


def test_an_instance_or_a_host_that_is_set_wins():
    assert emitter({"user.id": "ana"}, CODING_AGENT | {"service.instance.id": "laptop-7"}) == "claude-code@laptop-7"
    assert emitter({"user.id": "ana"}, CODING_AGENT | {"host.name": "laptop"}) == "claude-code@laptop"
    assert emitter({"session.id": ""}) == "claude-code"
    assert len(emitter({"user.id": "\U0001f600" * 10**5})) < 50


def test_a_traced_service_without_resource_attributes_is_one_reporter_whatever_its_sessions():
    named = [TOOL | {"session.id": session, "user.id": session} for session in ("a", "b")]
    calls = calls_in(span_request(*({"id": number, "attributes": each} for number, each in enumerate(named, 1))))
    assert {each.emitter_id for each in calls} == {"agent"}


@pytest.mark.parametrize("name", AGENTS)
def test_the_calls_of_a_coding_agent_have_one_derived_emitter(name):
    (found,) = {each.emitter_id for each in logged_calls_in(log_sample(name))}
    assert "@~" in found


GEMINI = {
    "function_name": "mcp_weather_get_forecast",
    "tool_type": "mcp",
    "mcp_server_name": "weather",
    "session.id": "g-1",
    "prompt_id": "p-1",
    "duration_ms": 80,
    "success": True,
    "decision": "accept",
    "function_args": '{"city": "Oslo"}',
}


def test_a_call_that_gemini_logs_is_a_call():
    (call,) = logged_calls_in(log_request("gemini_cli.tool_call", GEMINI))
    assert (call.tool_name, call.status, call.request_id) == ("mcp:weather:get_forecast", "success", "p-1")
    assert "Oslo" not in call.model_dump_json()


@pytest.mark.parametrize(
    ("error_type", "error_class"),
    [("invalid_tool_params", "invalid_input"), ("policy_violation", "policy"), ("mcp_tool_error", "tool")],
)
def test_geminis_types_of_errors_have_classes(error_type, error_class):
    failed = GEMINI | {"success": False, "error_type": error_type, "error": "it failed"}
    (call,) = logged_calls_in(log_request("gemini_cli.tool_call", failed))
    assert call.error_class == error_class


def test_other_events_of_coding_agents_are_not_calls():
    for event in (
        "claude_code.tool_decision",
        "claude_code.api_request",
        "codex.tool_decision",
        "gemini_cli.api_error",
    ):
        assert logged_calls_in(log_request(event, {"tool_name": "Bash", "success": "true"})) == []


def test_an_event_of_another_program_that_is_named_tool_result_is_not_a_call_of_claude_code():
    assert logged_calls_in(log_request("tool_result", CLAUDE, scope="my.app")) == []
