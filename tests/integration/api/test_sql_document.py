"""docs/sql.md: every worked query runs through the same gate that people's queries do, and answers."""

from datetime import UTC, datetime, timedelta

import pytest

from switchgear_api.readonly import ReadOnlySql
from switchgear_schemas.circuit import Cause, Circuit
from tests.support.engine import TABLES, call, store_calls, store_circuits
from tests.support.snippets import REPOSITORY, snippets
from tests.support.table import table

DOCUMENT = "docs/sql.md"
QUERIES = snippets(DOCUMENT, "sql")
TOOL = "mcp:weather:get_forecast"
REFUSED = {"refused": 7, "refused_by": "local", "cause": {"rule": "consecutive_failures"}}


@pytest.fixture
async def sql(store) -> ReadOnlySql:
    now = datetime.now(UTC)
    loop = {"session_id": "s", "parameters_hash": "h", "input_tokens": 5}
    await store_calls(
        store,
        [
            *[call(TOOL, at=now - timedelta(minutes=n), execution_time_ms=10 * n + 1, **loop) for n in range(1, 20)],
            *[call(TOOL, "error", now, error_message=f"no city {n}", error_type="E", **loop) for n in range(4)],
            call(TOOL, "rejected", now, emitter_id="a", service="planner", metadata=REFUSED),
            call(TOOL, at=now, served_by="fallback", fallback_tool="backup"),
            call("db:report", at=now, execution_time_ms=8000),
            call(
                "db:report",
                "error",
                now,
                error_type="ValueError",
                error_class="invalid_input",
                error_message="no such day",
            ),
            call("db:report", "cancelled", now),
        ],
    )
    states = (("closed", None), ("open", "closed"), ("half_open", "open"), ("closed", "half_open"))
    await store_circuits(
        store,
        [
            Circuit(
                circuit_id=TOOL, tool_name=TOOL, state=state, previous_state=previous, version=n + 1, generation=n,
                changed_at=now + timedelta(seconds=30 * n), cause=Cause(rule="cusum"),
            )
            for n, (state, previous) in enumerate(states)
        ],
    )  # fmt: skip
    return ReadOnlySql(store.connect, embedded=True, max_rows=1000, max_seconds=10)


def test_sql_document_has_at_least_a_dozen_queries():
    assert len(QUERIES) >= 12


@table("query", QUERIES)
def test_query_of_the_sql_document_runs(sql, query):
    result = sql.run(query)
    assert result.rows, query
    assert all(column["name"] for column in result.columns)


def test_queries_of_the_sql_document_answer_correctly(sql):
    answers = [sql.run(query) for query in QUERIES]
    worked = next(place for place, query in enumerate(QUERIES) if "distinct_events" in query)
    of_views(answers[:worked])
    answers = answers[worked:]
    assert answers[0].rows == [[28, 28]]
    by_name = [dict(zip([column["name"] for column in each.columns], each.rows[0], strict=True)) for each in answers]
    day, month, hourly, percentiles = by_name[1:5]
    assert (day["calls"], day["success_rate"], day["refused"]) == (24, round(20 / 24, 4), 1)
    report = next(row for row in answers[1].rows if row[0] == "db:report")
    assert report[1:5] == [3, 1, 1, 1.0], "calls, caller errors, cancelled, success rate"
    assert (month["made"], month["failed"]) == (24, 4)
    assert sum(row[2] for row in answers[3].rows if row[0] == TOOL) == 24
    assert hourly["hour"].endswith(":00:00")
    assert percentiles["p50_p95_p99_ms"][0] <= percentiles["p50_p95_p99_ms"][1]
    local = next(each for each in by_name if "calls_refused" in each)
    assert (local["processes"], local["calls_refused"], local["opened_by"]) == (1, 7, "consecutive_failures")
    templates = next(each for each in by_name if "template" in each)
    assert (templates["template"], templates["times"]) == ("no city <n>", 4)
    loops = next(each for each in by_name if "parameters_hash" in each)
    assert (loops["times"], loops["tokens"]) == (23, 115)
    waste = next(each for each in by_name if "wasted_tokens" in each)
    assert (waste["wasted_tokens"], waste["share_of_all"]) == (20, round(20 / 115, 3))
    circuit = next(each for each in by_name if "decided_by" in each)
    assert (circuit["state_now"], circuit["decided_by"], circuit["opens"]) == ("closed", "cusum", 1)
    outage = next(each for each in by_name if "seconds" in each)
    assert outage["seconds"] == 60


def of_views(answers):
    hour, slowest, ends, slow, patterns, types, callers, history, duplicates, waste, tenant = (
        dict(zip([column["name"] for column in each.columns], each.rows[0], strict=True)) for each in answers
    )
    assert hour["calls"] >= hour["failures"]
    assert (slowest["tool_name"], slowest["execution_time_ms"], slow["execution_time_ms"]) == ("db:report", 8000, 8000)
    assert ends["execution_time_ms"] == 8000
    assert (patterns["error_type"], patterns["pattern"], patterns["errors"]) == ("E", "no city <n>", 4)
    assert (types["error_type"], types["times"]) == ("E", 4)
    assert (callers["error_class"], callers["times"], callers["newest_message"]) == ("invalid_input", 1, "no such day")
    assert (history["previous_state"], history["state"], history["rule"]) == ("half_open", "closed", "cusum")
    assert (duplicates["session_id"], duplicates["calls"], duplicates["failures"], duplicates["tokens"]) == (
        "s",
        23,
        4,
        115,
    )
    assert (waste["tool_name"], waste["failed"], waste["tokens"]) == (TOOL, 4, 20)
    assert (tenant["tenant"], tenant["tool_name"], tenant["made"], tenant["failures"]) == ("", TOOL, 24, 4)


async def test_the_document_names_every_table_and_view_of_calls_and_circuits(store):
    text = (REPOSITORY / DOCUMENT).read_text()
    rows = (
        await store.query("SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View'")
    ).result_rows
    views = [row[0] for row in rows]
    assert len(views) >= 6
    assert all(f"| `{name}` |" in text for name in (*TABLES, *views))
    assert all(any(f"FROM {view}" in query for query in QUERIES) for view in views)
    projections = await store.query("SELECT name, table FROM system.projections WHERE database = currentDatabase()")
    assert len(projections.result_rows) == 4
    assert all(f"| `{name}` | `{table}`" in text for name, table in projections.result_rows)
