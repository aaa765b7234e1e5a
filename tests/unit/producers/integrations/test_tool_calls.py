"""The part that all adapters share, without a framework."""

from __future__ import annotations

import asyncio

import pytest

from switchgear import BreakerPolicy, Classification, GuardOptions, SwitchgearError, Usage
from switchgear.classify.tool_failure import META_KEY, read_tool_failure
from switchgear.integrations import tool_calls
from switchgear.integrations.tool_calls import OpenCalls, RefusedCall, StartedCall, ToolCalls
from switchgear.prompts import Unavailable, notice
from switchgear.testing import InMemoryFleet
from tests.support.table import table


@pytest.fixture
def fleet():
    return InMemoryFleet(BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=30))


@pytest.fixture
def calls(fleet):
    return ToolCalls(fleet.gear(), circuit_of=lambda name: f"mcp:weather:{name}")


def statuses(fleet, tool):
    return [event["status"] for event in fleet.events(tool)]


def test_started_call_reports_a_success_to_the_circuit_of_the_tool(fleet, calls):
    call = calls.begin("forecast")
    assert call
    call.succeeded("sunny")
    assert (call.name, call.circuit, call.is_fallback) == ("forecast", "mcp:weather:forecast", False)
    assert statuses(fleet, "mcp:weather:forecast") == ["success"]


def test_started_call_reports_once(fleet, calls):
    call = calls.begin("forecast")
    call.failed("no such city")
    call.succeeded("sunny")
    call.failed(ConnectionError("down"))
    call.ignored()
    assert [event["error_class"] for event in fleet.events()] == ["tool"]


def test_leaving_the_block_of_a_call_reports_what_happened(fleet, calls):
    with calls.begin("forecast"):
        pass
    with pytest.raises(ConnectionError), calls.begin("forecast"):
        raise ConnectionError("down")
    assert statuses(fleet, "mcp:weather:forecast") == ["success", "error"]


def failed(text, **fields):
    return {"isError": True, "content": [{"type": "text", "text": text}]} | fields


@table(
    "text",
    [
        "Failed to fetch http://203.0.113.9/: ConnectError('All connection attempts failed')",
        "Failed to fetch https://example.org/ - status code 503",
        "1 failed: test_db: psycopg.OperationalError: connection refused",
        "Error executing tool forecast",
        "MCP error -32000: Connection closed",
        "Connection closed",
        "\ud800 timed out \x00",
        "connection refused\n" * 100_000,
    ],
)
def test_a_failed_answer_is_the_tools_whatever_its_text_says(text):
    fleet = InMemoryFleet(BreakerPolicy(consecutive_failures=2))
    calls = ToolCalls(fleet.gear(), circuit_of=lambda name: f"mcp:weather:{name}")
    for name in ("forecast", "forecast", "forecast", "news", "tides"):
        calls.begin(name).succeeded(failed(text))
    assert {event["error_class"] for event in fleet.events()} == {"tool"}
    assert {view.state for view in calls.gear.circuits().values()} <= {"closed"}


def test_a_glob_turns_the_rules_for_texts_on_for_its_tools_alone(fleet):
    gear = fleet.gear(outages_in_text=["mcp:weather:fore*", "news"])
    calls = ToolCalls(gear, circuit_of=lambda name: f"mcp:weather:{name}")
    for name in ("forecast", "news"):
        calls.begin(name).succeeded(failed("503 Service Unavailable"))
    calls.begin("forecast").succeeded(failed("no such city"))
    assert [event["error_class"] for event in fleet.events()] == ["server", "tool", "tool"]


def test_a_quoted_refusal_is_policy_without_any_option(fleet, calls):
    calls.begin("forecast").succeeded(
        failed("The tool db is unavailable (circuit open). Its last error was: timed out. Do not call it again now.")
    )
    assert [event["error_class"] for event in fleet.events()] == ["policy"]


def test_what_the_meta_says_decides_before_any_text(fleet):
    calls = ToolCalls(fleet.gear(outages_in_text=["*"]))
    meta = {META_KEY: {"class": "capability", "code": "unsupported"}}
    calls.begin("forecast").succeeded(failed("connection refused", _meta=meta))
    meta = {META_KEY: {"class": "reliability", "code": "backend_down"}}
    calls.begin("forecast").succeeded(failed("no such city", _meta=meta))
    assert [event["error_class"] for event in fleet.events()] == ["tool", "server"]


def test_a_status_in_the_structured_content_of_a_result_is_the_targets_and_makes_no_outage(fleet, calls):
    for field in ("structuredContent", "structured_content"):
        calls.begin("forecast").succeeded(failed("failed", **{field: {"status_code": 503, "error": "ECONNREFUSED"}}))
    assert [event["error_class"] for event in fleet.events()] == ["tool", "tool"]


def test_own_rule_for_results_replaces_the_rule_by_text(fleet):
    gear = fleet.gear(
        outages_in_text=["*"],
        defaults=GuardOptions(classify_result=lambda result: "auth" if result == "401" else None),
    )
    calls = ToolCalls(gear)
    calls.begin("forecast").succeeded("401")
    calls.begin("forecast").succeeded({"isError": True, "content": "503 Service Unavailable"})
    assert [event.get("error_class") for event in fleet.events()] == ["auth", None]


def test_classes_and_costs_that_the_adapter_knows_are_reported(fleet, calls):
    calls.begin("forecast").failed("slow", failure="timeout", usage=Usage(3, 4), duration_ms=12)
    calls.begin("forecast").succeeded("odd", failure=Classification("rate_limited", 9))
    first, second = fleet.events()
    assert (first["error_class"], first["input_tokens"], first["execution_time_ms"]) == ("timeout", 3, 12)
    assert (second["error_class"], second["retry_after_s"]) == ("rate_limited", 9)


def test_costs_of_a_failed_call_are_read_from_its_exception_unless_the_adapter_knows_them(fleet):
    gear = fleet.gear(defaults=GuardOptions(usage=lambda found: found.args[1]))
    calls = ToolCalls(gear)
    calls.begin("forecast").failed(ConnectionError("cut off", 60))
    calls.begin("forecast").failed(ConnectionError("cut off", 60), usage=7)
    calls.begin("stations").failed(ConnectionError("says nothing"))
    calls.begin("stations").failed("a text")
    spent = [[event.get("output_tokens") or 0 for event in fleet.events(tool)] for tool in ("forecast", "stations")]
    assert spent == [[60, 7], [0, 0]]


def test_refusal_has_the_names_that_the_model_knows(fleet):
    gear = fleet.gear(fallbacks={"mcp:weather:forecast": "mcp:weather:backup"})
    calls = ToolCalls(gear, circuit_of=lambda name: f"mcp:weather:{name}")
    fleet.open_circuit("mcp:weather:forecast")
    refused = calls.begin("forecast")
    assert not refused
    assert refused.text == (
        "The tool forecast is unavailable (circuit forced open). Do not call it again now. Use mcp:weather:backup instead."
    )
    assert calls.begin("forecast", others=["forecast", "other"]).text.endswith("Use mcp:weather:backup instead.")


def test_fallback_among_the_other_tools_gets_the_permit(fleet):
    gear = fleet.gear(fallbacks={"mcp:weather:forecast": ["mcp:weather:gone", "mcp:weather:backup"]})
    calls = ToolCalls(gear, circuit_of=lambda name: f"mcp:weather:{name}")
    fleet.open_circuit("mcp:weather:forecast")
    call = calls.begin("forecast", others=["forecast", "backup"])
    assert (call.name, call.circuit, call.is_fallback) == ("backup", "mcp:weather:backup", True)
    call.succeeded("cloudy")
    (refusal,) = fleet.events("mcp:weather:forecast")
    assert (refusal["served_by"], refusal["fallback_tool"]) == ("fallback", "mcp:weather:backup")
    assert statuses(fleet, "mcp:weather:backup") == ["success"]


def test_asynchronous_begin_decides_like_the_synchronous_one(fleet, calls):
    fleet.open_circuit("mcp:weather:news")
    started = asyncio.run(calls.abegin("forecast"))
    refused = asyncio.run(calls.abegin("news"))
    assert isinstance(started, StartedCall)
    assert isinstance(refused, RefusedCall)
    started.released()
    assert statuses(fleet, "mcp:weather:forecast") == []


def test_refusal_as_structured_data_is_read_as_a_refusal(fleet, calls):
    fleet.open_circuit("mcp:weather:forecast", for_s=30)
    failure = calls.begin("forecast").tool_failure
    assert failure["code"] == "circuit_open"
    assert failure["retryable"] is True
    assert failure["agentGuidance"].startswith("The tool forecast is unavailable")
    assert read_tool_failure({META_KEY: failure}).error_class == "policy"


def test_failed_attempts_of_one_call_are_one_event(fleet, calls):
    asked = {"id": "1"}
    for _ in range(3):
        calls.begin("forecast", attempt_of=asked).failed(ConnectionError("down"))
    calls.begin("forecast", attempt_of={"id": "1"}).failed(
        ConnectionError("down")
    )  # another call, although it is equal
    assert [event["error_class"] for event in fleet.events()] == ["transport", "transport"]


def test_an_attempt_that_succeeds_after_others_failed_is_a_success_of_its_own(fleet, calls):
    asked = {"id": "1"}
    for _ in range(2):
        calls.begin("forecast", attempt_of=asked).failed(ConnectionError("down"))
    calls.begin("forecast", attempt_of=asked).succeeded("sunny")
    assert statuses(fleet, "mcp:weather:forecast") == ["error", "success"]


def test_an_attempt_that_says_more_of_the_tool_than_the_one_before_has_an_event_of_its_own(fleet, calls):
    asked = {"id": "1"}
    for error in ("no such city", "no such city", ConnectionError("down"), "no such city"):
        calls.begin("forecast", attempt_of=asked).failed(error)
    assert [event["error_class"] for event in fleet.events()] == ["tool", "transport"]


def test_an_attempt_that_probes_the_tool_decides_although_one_before_failed(fleet):
    calls, asked = ToolCalls(fleet.gear()), {"id": "1"}
    calls.begin("forecast", attempt_of=asked).failed(ConnectionError("down"))
    calls.begin("forecast").failed(ConnectionError("down"))
    fleet.advance(31)
    calls.begin("forecast", attempt_of=asked).failed(ConnectionError("down"))
    assert statuses(fleet, "forecast").count("error") == 3
    assert fleet.state("forecast") == "open"


def test_a_failed_attempt_that_cost_something_has_an_event_with_its_costs(fleet, calls):
    asked = {"id": "1"}
    for _ in range(2):
        calls.begin("forecast", attempt_of=asked).failed(ConnectionError("down"), usage=7)
    assert [(event["error_class"], event["output_tokens"]) for event in fleet.events()] == [
        ("transport", 7),
        ("policy", 7),
    ]


def test_attempts_of_one_call_are_one_call_for_the_limit_of_a_session(fleet):
    gear = fleet.gear()
    calls, asked = ToolCalls(gear), {"id": "1"}
    with gear.session("s", max_calls=2):
        for _ in range(3):
            calls.begin("forecast", attempt_of=asked).failed("no such city")
        assert calls.begin("forecast")


def test_only_the_last_failed_calls_are_remembered(fleet, monkeypatch):
    monkeypatch.setattr(tool_calls, "MOST_FAILED", 2)
    calls = ToolCalls(fleet.gear())
    asked = [{"id": str(number)} for number in range(3)]
    for each in asked:
        calls.remember_failed(each, "transport")
    assert [calls.failed_before(each, "transport") for each in asked] == [False, True, True]


def test_run_ends_after_the_given_number_of_refusals_in_one_session(fleet):
    calls = ToolCalls(fleet.gear(), terminal_after=2)
    fleet.open_circuit("forecast")
    ends = [calls.begin("forecast", session_id=session).ends_run for session in ("a", "b", "a", "b", "a")]
    assert ends == [False, False, True, True, True]


def test_session_of_the_client_goes_before_the_frameworks_session(fleet):
    gear = fleet.gear()
    calls = ToolCalls(gear, terminal_after=2)
    fleet.open_circuit("forecast")
    with gear.session("s-1"):
        assert not calls.begin("forecast", session_id="thread-1").ends_run
        assert calls.begin("forecast", session_id="thread-2").ends_run
        calls.begin("news", session_id="thread-2").succeeded()
    assert {event["session_id"] for event in fleet.events()} == {"s-1"}


def test_sessions_with_refusals_are_bounded(fleet, monkeypatch):
    monkeypatch.setattr(tool_calls, "MOST_SESSIONS", 2)
    calls = ToolCalls(fleet.gear(), terminal_after=2)
    fleet.open_circuit("forecast")
    assert not any(calls.begin("forecast", session_id=session).ends_run for session in ("a", "b", "c", "a"))


def test_tool_whose_function_is_guarded_is_left_to_that_guard(fleet):
    gear = fleet.gear(tool_list="hide", hide_after_s=0)
    calls = ToolCalls(gear)

    class Tool:
        name = "forecast"
        func = staticmethod(gear.guard("weather")(lambda city: f"sunny in {city}"))

    call = calls.begin("forecast", tool=Tool())
    assert call.circuit == "weather"
    call.failed(ConnectionError("down"))
    assert fleet.events() == []
    fleet.open_circuit("weather")
    assert calls.turn([Tool()], session_id="s") == ([], f"[tool status] {notice([Unavailable('forecast')])}")


def test_message_names_the_agents_tools_only(fleet, calls):
    fleet.open_circuit("mcp:weather:forecast")
    fleet.open_circuit("mcp:other:search")
    assert calls.message(["news"], session_id="s") == ""
    assert calls.message([], session_id="s") == ""
    assert calls.message(["forecast", "news"], session_id="s").startswith(
        "[tool status] These tools are unavailable: forecast. "
    )
    assert calls.message(["forecast", "news"], session_id="s") == ""


def test_message_names_the_server_of_the_agents_tools(fleet, calls):
    fleet.open_circuit("mcp:weather", family=True)
    assert "unavailable: all tools of mcp:weather. " in calls.message(["news"], session_id="s")
    other = ToolCalls(calls.gear, circuit_of=lambda name: f"mcp:b:{name}")
    assert other.message(["news"], session_id="s") == ""


def test_two_agents_of_one_session_are_told_each(fleet, calls):
    fleet.open_circuit("mcp:weather:forecast")
    other = ToolCalls(calls.gear, circuit_of=lambda name: f"mcp:weather:{name}")
    assert calls.message(["forecast"], session_id="s") == other.message(["forecast"], session_id="s") != ""


def test_events_carry_the_hash_of_the_arguments_if_the_client_has_a_key(fleet):
    calls = ToolCalls(fleet.gear(parameters_key=b"k" * 32))
    for city in ("Oslo", "Oslo", "Bergen"):
        calls.begin("forecast", given={"city": city}).succeeded()
    first, second, third = (event["parameters_hash"] for event in fleet.events())
    assert first == second != third


def test_open_calls_are_taken_once(fleet, calls):
    kept, call = OpenCalls(), calls.begin("forecast")
    kept.put("id-1", call)
    assert kept.take("id-1") is call
    assert kept.take("id-1") is None


def test_open_call_whose_end_never_comes_is_ignored_when_others_need_its_place(fleet, calls, monkeypatch):
    monkeypatch.setattr(tool_calls, "MOST_OPEN", 2)
    kept = OpenCalls()
    for number in range(3):
        kept.put(number, calls.begin("forecast"))
    kept.put(2, calls.begin("forecast"))
    assert len(kept) == 2
    assert [event.get("error_class") for event in fleet.events()] == ["policy", "policy"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gear": "localhost:9092"}, "gear must be a Switchgear client"),
        ({"terminal_after": 0}, "terminal_after"),
        ({"circuit_of": 3}, "circuit_of"),
    ],
)
def test_impossible_arguments_are_named(fleet, wrong, message):
    with pytest.raises(SwitchgearError, match=message):
        ToolCalls(**{"gear": fleet.gear(), **wrong})
