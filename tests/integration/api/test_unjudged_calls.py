"""Calls that say nothing of the tool, from the guard to the terminal: caller errors and cancelled calls."""

import asyncio
import json
import time
from dataclasses import asdict
from datetime import UTC, datetime

import httpx
import pytest

from switchgear.testing import FakeClock, InMemoryFleet
from switchgear_api.console.figures import read_figures
from switchgear_api.console.now import fleet_of, tool_row
from switchgear_api.console.records import no_circuit
from switchgear_api.console.series import fleet_series, tool_series
from switchgear_cli.main import run
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.health.verdict import Counted
from switchgear_sinks.repository import ToolMetricsRepository
from switchgear_sinks.store import Database
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from switchgear_sinks.writer.rows import ExecutionRows
from tests.support.engine import call, store_calls
from tests.support.records import records

TIMES = 12


async def calls_that_say_nothing(fleet):
    """Twelve guarded calls each: one tool is called wrongly, of the other one the callers give up after three seconds."""
    gear = fleet.gear("planner")

    @gear.guard("calendar")
    def book(day):
        raise ValueError(f"no such day: {day}")

    @gear.guard("search")
    async def search():
        await asyncio.sleep(60)

    for _ in range(TIMES):
        with pytest.raises(ValueError, match="no such day"):
            book("February 30")
        asked = asyncio.create_task(search())
        await asyncio.sleep(0)
        fleet.advance(3)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert not gear.is_open("calendar")
    assert not gear.is_open("search")
    gear.close()


async def stored_as_the_sink_does(store, events):
    made = ExecutionRows().rows(
        records(*(json.dumps(event).encode() for event in events), timestamp=int(time.time() * 1000))
    )
    assert made.dead == []
    await store.raw_insert("tool_metrics", b"\n".join(made.values), "JSONEachRow", INSERT_SETTINGS)


@pytest.fixture
def guarded(store):
    """The store, with what the guards emitted."""
    fleet = InMemoryFleet(clock=FakeClock(time.time() - 5 * TIMES))
    asyncio.run(calls_that_say_nothing(fleet))
    assert fleet.circuits() == {}, "the breaker ignores both"
    asyncio.run(stored_as_the_sink_does(store, fleet.events()))
    return store


async def test_caller_errors_and_cancelled_calls_are_stored_as_what_they_are(guarded):
    found = await guarded.query(
        "SELECT tool_name, status, error_class, error_type, count() FROM tool_metrics GROUP BY ALL ORDER BY ALL"
    )
    assert [tuple(row) for row in found.result_rows] == [
        ("calendar", "error", "invalid_input", "ValueError", TIMES),
        ("search", "cancelled", "cancelled", "CancelledError", TIMES),
    ]


@pytest.mark.parametrize("hours", [1, 24])
async def test_health_of_a_tool_with_only_unjudged_calls_is_unknown_with_advice(guarded, hours):
    service = ToolHealthService(guarded)
    everything = await service.check_all_tools_health(hours)
    assert everything.status.value == "unknown"
    for report in everything.tool_reports:
        assert report.status.value == "unknown"
        assert (report.total_calls, report.recent_errors, report.success_rate) == (TIMES, 0, 0.0)
        assert not any("fallback" in each for each in report.recommendations)
        alone = await service.check_tool_health(report.tool_name, hours)
        assert alone.to_dict() | {"checked_at": None} == report.to_dict() | {"checked_at": None}
        assert not await service.should_circuit_break(report.tool_name)
    calendar, search = everything.tool_reports
    assert (calendar.caller_errors, calendar.cancelled_calls) == (TIMES, 0)
    assert calendar.issues[1].startswith(f"{TIMES} of {TIMES} calls ")
    assert calendar.issues[1].endswith("(invalid_input): ValueError: no such day: February 30")
    assert calendar.recommendations == [
        "Correct how calendar is called: its schema or description leads callers to wrong arguments."
    ]
    assert (search.caller_errors, search.cancelled_calls) == (0, TIMES)
    assert search.issues[1].endswith("were cancelled by the caller, after 3.0 s on average.")
    assert search.recommendations == ["Callers of search give up after 3.0 s on average: look at their time limits."]


async def test_cancelled_calls_are_not_errors_and_caller_errors_are_not_failures_of_the_tool(guarded):
    repository = ToolMetricsRepository(guarded)
    assert await repository.get_recent_errors("search") == []
    assert len(await repository.get_recent_errors(limit=50)) == TIMES
    for name in ("calendar", "search"):
        last = await repository.get_last_calls(name)
        assert (last["last_success"], last["last_failure"], last["last_error"]) == (None, None, None)
    stats = await repository.get_tool_stats("calendar")
    assert (stats["error_count"], stats["caller_error_count"], stats["cancelled_count"]) == (TIMES, TIMES, 0)
    stats = await repository.get_tool_stats("search")
    assert (stats["error_count"], stats["timeout_count"], stats["cancelled_count"]) == (0, 0, TIMES)


async def test_tools_whose_callers_need_help_are_on_the_dashboard(guarded):
    service = ToolHealthService(guarded)
    assert [each["tool_name"] for each in (await service.get_dashboard_summary())["tools_needing_attention"]] == [
        "calendar",
        "search",
    ]
    (pattern,) = (await service.get_error_patterns("calendar"))["patterns"]
    assert (pattern["error_type"], pattern["caller_error"], pattern["count"]) == ("ValueError", "invalid_input", TIMES)
    health = await service.get_tool_health("calendar")
    assert (health["successful_calls"], health["failed_calls"], health["caller_errors"]) == (0, 0, TIMES)


def test_api_and_command_line_show_caller_errors_and_cancelled_calls_separately(guarded, api_url, capsys):
    answer = httpx.get(f"{api_url}/v1/tools/search").json()
    assert (answer["report"]["cancelled_calls"], answer["stats"]["cancelled_count"]) == (TIMES, TIMES)
    assert httpx.get(f"{api_url}/v1/errors?tool=search").json()["errors"] == []

    assert run(["tools"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()[2:]
    assert "failed  caller err.  cancelled  success" in heading
    assert [row.split() for row in rows] == [
        ["calendar", "unknown", "-", "12", "0", "12", "0", "-", "-", "-", "0"],
        ["search", "unknown", "-", "12", "0", "0", "12", "-", "-", "-", "0"],
    ]
    assert run(["tool", "calendar"]) == 0
    shown = capsys.readouterr().out
    assert "12 of these (not in the success rate)" in shown
    assert "Correct how calendar is called" in shown
    assert run(["tool", "search"]) == 0
    assert "12, after 3.00 s on average (not in the success rate)" in capsys.readouterr().out
    assert run(["errors"]) == 0
    assert "search" not in capsys.readouterr().out


@pytest.mark.parametrize("status", ["error", "timeout"])
async def test_a_cancelled_call_of_an_older_emitter_is_stored_with_the_status_of_today(store, status):
    event = {"tool_name": "t", "status": status, "error_class": "cancelled", "metadata": {"a": [1]}, "service": "old"}
    await stored_as_the_sink_does(store, [event])
    (found,) = await ToolMetricsRepository(store).get_recent_executions("t")
    assert (found.status, found.error_class, found.metadata, found.service) == (
        "cancelled",
        "cancelled",
        {"a": [1]},
        "old",
    )


async def test_failures_are_judged_without_the_caller_errors(store):
    calls = [
        *[call("t", execution_time_ms=100)] * 6,
        *[call("t", "error", execution_time_ms=300, error_class="server", error_type="HTTPStatusError")] * 4,
        *[call("t", "error", execution_time_ms=1, error_class="invalid_input", error_type="HTTPStatusError")] * 50,
        *[call("t", "cancelled", execution_time_ms=60_000)] * 20,
    ]
    await store_calls(store, calls)
    service = ToolHealthService(store)
    for report in (await service.check_tool_health("t"), (await service.check_all_tools_health()).tool_reports[0]):
        assert (report.status.value, report.success_rate) == ("unhealthy", 0.6)
        assert (report.total_calls, report.recent_errors) == (80, 4)
        assert report.avg_latency_ms == 180.0, "neither the quick refusals nor the calls that were given up"
        assert report.p99_latency_ms <= 300
        assert "4 of 10 judged calls failed" in report.issues[0]
        assert report.issues[1].startswith("Most frequent error: HTTPStatusError, 4 times")
        assert report.issues[2].startswith("50 of 80 calls")


async def test_results_that_a_rule_ignores_are_not_successes(store):
    await store_calls(store, [call("t", error_class="policy", execution_time_ms=5)] * TIMES)
    service = ToolHealthService(store)
    for report in (await service.check_tool_health("t"), (await service.check_all_tools_health()).tool_reports[0]):
        assert (report.status.value, report.total_calls, report.success_rate) == ("unknown", TIMES, 0.0)
        assert (report.recent_errors, report.caller_errors, report.cancelled_calls) == (0, 0, 0)
        assert "none of the 12 calls" in report.issues[0]


async def test_the_console_judges_the_calls_that_reports_judge(store):
    calls = [
        *[call("t")] * 8,
        *[call("t", error_class="policy")] * 7,
        *[call("t", "error", error_class="server")] * 3,
        *[call("t", "error", error_class="invalid_input")] * 5,
        *[call("t", "timeout"), call("t", "cancelled"), call("t", "rejected")],
    ]
    await store_calls(store, calls)
    counted = Counted.of(await ToolMetricsRepository(store).get_tool_stats("t"))
    assert counted == Counted(25, errors=4, timeouts=1, caller_errors=5, cancelled=1, ignored=7)
    db, now = Database(store), datetime.now(UTC)
    figures = await read_figures(db, now, 60, None, {})
    assert {name: getattr(figures.tools["t"], name) for name in asdict(counted)} == asdict(counted)
    assert fleet_of([tool_row(no_circuit("t", None), "t", figures, None)])["error_rate"] == round(4 / 12, 6)
    for hours in (1, 48):
        for series in (await tool_series(db, "t", None, now, hours), await fleet_series(db, None, now, hours)):
            assert (sum(series["judged"]), sum(series["errors"])) == (12, 4)


async def test_events_without_a_class_are_judged_as_the_reference_says(store):
    await store_calls(
        store,
        [
            *[call("t", execution_time_ms=100)] * 8,
            *[call("t", "error", error_type="ValueError", execution_time_ms=50)] * 2,
        ],
    )
    report = await ToolHealthService(store).check_tool_health("t")
    assert (report.status.value, report.success_rate, report.recent_errors) == ("degraded", 0.8, 2)
    assert report.avg_latency_ms == 90.0
    assert report.issues[0] == "Success rate 80 %, below 95 %: 2 of 10 calls failed in the last hour (0 timed out)."
    assert report.recommendations == [
        "Read the errors (switchgear errors --tool t), and give the tool a fallback until they are gone."
    ]
