"""Every route over the real engine: shapes, bounds, and errors that say the way out."""

import math
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_schemas.circuit import Cause, Circuit, Counts
from switchgear_schemas.health import SystemHealthReport, ToolHealthReport
from switchgear_schemas.settings import Settings
from tests.support.engine import call, store_calls, store_circuits


def now() -> datetime:
    """Return the time of the test. A constant would have that of the collection, an hour earlier at the end of a long run."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def checks():
    return {"kafka": True}


@pytest.fixture
async def api(store, checks):
    app = create_app(store, Settings(), registry=CollectorRegistry(), readiness=lambda: checks)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
        yield client


def circuit(state="open", version=2, circuit_id="search", **fields):
    return Circuit(
        **{
            "circuit_id": circuit_id,
            "tool_name": circuit_id.partition("|")[0],
            "state": state,
            "previous_state": "closed",
            "version": version,
            "generation": version,
            "changed_at": now(),
            "cause": Cause(rule="cusum", value=12.5, threshold=12.0),
            "counts": Counts(calls=10, failed=9),
        }
        | fields
    )


async def refused(api, status, word, path, **request):
    answer = await api.request(request.pop("method", "GET"), path, **request)
    assert answer.status_code == status, answer.text
    content = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert content["status"] == status
    assert word in content["detail"]
    return content


async def test_an_empty_store_answers_everything_with_nothing(api):
    tools = (await api.get("/v1/tools")).json()
    assert (tools["status"], tools["tool_reports"], tools["hours"]) == ("unknown", [], 1)
    assert (await api.get("/v1/circuits")).json()["circuits"] == {}
    assert (await api.get("/v1/circuits?history=1")).json()["history"] == []
    assert (await api.get("/v1/slow")).json() == {"threshold_ms": 5000, "executions": []}
    nothing = {"newest_event_at": None, "newest_event_age_s": None}
    assert (await api.get("/v1/errors")).json() == {"tool": None, "errors": [], **nothing}
    assert (await api.get("/v1/stored")).json() == {"events": 0, **nothing}


async def test_stored_route_answers_the_number_of_events(api, store):
    await store_calls(store, [call("search")] * 3)
    assert (await api.get("/v1/stored")).json()["events"] == 3


async def test_errors_and_stored_say_when_the_newest_event_came_of_the_tenant_asked_for(api, store):
    old, new = now() - timedelta(hours=3), now() - timedelta(minutes=2)
    await store_calls(
        store, [{**call("search", tenant=whose), "kafka_timestamp": at} for whose, at in (("acme", old), ("zeta", new))]
    )
    for path, at in (("/v1/errors", new), ("/v1/stored", new), ("/v1/errors?tenant=acme", old)):
        answer = (await api.get(path)).json()
        assert datetime.fromisoformat(answer["newest_event_at"]) == at.replace(microsecond=0), path
        age_s = (datetime.now(UTC) - at).total_seconds()
        assert answer["newest_event_age_s"] == pytest.approx(age_s, abs=30), path


async def test_tools_are_a_system_health_report_of_the_hours_asked_for(api, store):
    await store_calls(store, [call("search", at=now() - timedelta(hours=3))] * 5)
    assert (await api.get("/v1/tools")).json()["tool_reports"][0]["status"] == "unknown"
    content = (await api.get("/v1/tools?hours=6")).json()
    assert content.pop("hours") == 6
    report = SystemHealthReport.model_validate(content)
    assert (report.tool_reports[0].tool_name, report.tool_reports[0].total_calls) == ("search", 5)


async def test_a_tool_is_its_report_statistics_errors_and_circuits(api, store):
    await store_calls(store, [call("mcp:a/b", "error", error_message="boom 7"), call("mcp:a/b", execution_time_ms=50)])
    await store_circuits(store, [circuit(circuit_id="mcp:a/b")])
    for path in ("/v1/tools/mcp:a/b", "/v1/tools/mcp%3Aa%2Fb"):
        content = (await api.get(path)).json()
        report = ToolHealthReport.model_validate(content["report"])
        assert (report.tool_name, report.total_calls, report.circuit_state) == ("mcp:a/b", 2, "open")
        assert content["stats"]["max_time_ms"] == 50
        assert content["errors"]["templates"][0]["template"] == "boom <n>"
        assert content["circuits"][0]["state"] == "open"
        assert content["stored_calls"] == 2


async def test_tool_without_calls_is_not_found(api):
    content = await refused(api, 404, "'nobody'", "/v1/tools/nobody")
    assert "switchgear tools" in content["hint"]


async def test_circuits_are_their_latest_records_with_the_opens_of_a_day(api, store):
    soon, yesterday = now() + timedelta(seconds=60), now() - timedelta(hours=25)
    await store_circuits(
        store,
        [
            circuit("open", 1, changed_at=yesterday),
            circuit("closed", 2, changed_at=yesterday, previous_state="half_open"),
            circuit("open", 3, open_until=soon),
        ],
    )
    found = (await api.get("/v1/circuits")).json()["circuits"]["search"]
    assert (found["state"], found["version"], found["opens"]) == ("open", 3, 1)
    assert datetime.fromisoformat(found["open_until"]) == soon
    assert datetime.fromisoformat(found["last_closed_at"]) == yesterday
    assert found["cause"]["rule"] == "cusum"
    assert found["counts"]["failed"] == 9


async def test_one_circuit_and_its_history_are_found_by_id(api, store):
    await store_circuits(store, [circuit("closed", 1), circuit("open", 2), circuit("open", 1, "a|user=x/y")])
    assert (await api.get("/v1/circuits/search")).json()["circuit"]["version"] == 2
    for path in ("/v1/circuits/search/history", "/v1/circuits/search?history=1"):
        assert [each["version"] for each in (await api.get(path)).json()["history"]] == [2, 1]
    assert len((await api.get("/v1/circuits/a%7Cuser%3Dx%2Fy/history")).json()["history"]) == 1
    assert len((await api.get("/v1/circuits?history=1&limit=2")).json()["history"]) == 2
    await refused(api, 404, "'nobody'", "/v1/circuits/nobody")
    await refused(api, 404, "'nobody'", "/v1/circuits/nobody/history")


async def test_slow_calls_and_errors_are_executions(api, store):
    await store_calls(
        store,
        [
            call("a", execution_time_ms=6000),
            call("b", "timeout", execution_time_ms=9000, error_message="late"),
            call("a", "error", now() - timedelta(hours=2), execution_time_ms=7000),
        ],
    )
    slow = (await api.get("/v1/slow?threshold_ms=6500")).json()["executions"]
    assert [each["execution_time_ms"] for each in slow] == [9000, 7000]
    assert len((await api.get("/v1/slow?hours=1")).json()["executions"]) == 2
    assert len((await api.get("/v1/slow?tool=a&limit=1")).json()["executions"]) == 1
    errors = (await api.get("/v1/errors")).json()["errors"]
    assert [each["tool_name"] for each in errors] == ["b", "a"]
    assert errors[0]["error_message"] == "late"
    assert len((await api.get("/v1/errors?tool=a&limit=5")).json()["errors"]) == 1


async def test_a_tenant_sees_its_own_calls(api, store):
    await store_calls(store, [call("ours", "error", tenant="acme"), call("theirs", "error", tenant="other")])
    assert [each["tool_name"] for each in (await api.get("/v1/tools?tenant=acme")).json()["tool_reports"]] == ["ours"]
    assert len((await api.get("/v1/errors?tenant=acme")).json()["errors"]) == 1
    assert len((await api.get("/v1/errors")).json()["errors"]) == 2
    await refused(api, 404, "'theirs'", "/v1/tools/theirs?tenant=acme")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/tools?hours=0", "hours"),
        ("/v1/tools?hours=x", "hours"),
        ("/v1/tools/search?hours=-1", "hours"),
        ("/v1/tools?tool=x", "tool"),
        ("/v1/slow?threshold_ms=fast", "threshold_ms"),
        ("/v1/slow?threshold_ms=-1", "threshold_ms"),
        ("/v1/slow?limit=0", "limit"),
        ("/v1/errors?limit=99999999999999999999", "limit"),
        ("/v1/circuits?history=perhaps", "history"),
        ("/v1/circuits?limti=3", "limti"),
        ("/v1/circuits/search/history?limit=many", "limit"),
        ("/v1/stored?tool=x", "tool"),
        ("/v1/emitters?hours=0", "hours"),
    ],
)
async def test_answer_to_an_invalid_parameter_names_it(api, path, field):
    await refused(api, 400, field, path)


async def test_an_unknown_page_and_a_wrong_method_say_what_there_is(api):
    assert "/v1/tools" in (await refused(api, 404, "/v2/tools", "/v2/tools"))["hint"]
    assert "POST" in (await refused(api, 405, "GET", "/v1/sql"))["hint"]
    await refused(api, 405, "DELETE", "/v1/tools", method="DELETE")
    for path, allowed in (
        ("/v1/tools", {"GET", "HEAD"}),
        ("/v1/sql", {"POST"}),
        ("/v1/retention", {"GET", "HEAD", "PUT", "DELETE"}),
    ):
        answer = await api.request("PATCH", path)
        assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, allowed)


async def test_a_query_answers_columns_with_types_and_rows(api, store):
    await store_calls(store, [call("search")] * 3)
    answer = await api.post("/v1/sql", json={"query": "SELECT count(), any(tool_name) AS tool, nan FROM tool_metrics"})
    content = answer.json()
    assert content.pop("elapsed_s") > 0
    assert content == {
        "columns": [
            {"name": "count()", "type": "UInt64"},
            {"name": "tool", "type": "String"},
            {"name": "nan", "type": "Float64"},
        ],
        "rows": [[3, "search", "nan"]],
        "row_count": 1,
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "body"),
        (b"{}", "query"),
        (b'{"query": 1}', "query"),
        (b'{"query": "SELECT 1", "readonly": 0}', "readonly"),
        (b"\xff\xfe", "body"),
    ],
)
async def test_answer_to_an_invalid_sql_body_shows_a_valid_one(api, body, word):
    content = await refused(
        api, 400, word, "/v1/sql", method="POST", content=body, headers={"content-type": "application/json"}
    )
    assert "SELECT" in content["hint"]


async def test_a_web_page_cannot_query_a_local_switchgear(api):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        await refused(
            api, 400, "application/json", "/v1/sql",
            method="POST", content=b'{"query": "SELECT 1"}', headers={"content-type": kind},
        )  # fmt: skip


async def test_a_foreign_host_name_that_resolves_here_is_refused_with_what_to_do(api, store):
    """DNS rebinding: the page's own name leads to 127.0.0.1."""
    for path, request in (
        ("/v1/tools", {}),
        ("/v1/sql", {"method": "POST", "json": {"query": "SELECT 1"}}),
        ("/metrics", {}),
        ("/nothing", {}),
    ):
        headers = {"host": "rebound.example:8620"}
        content = await refused(api, 421, "rebound.example", path, headers=headers, **request)
        assert "SWITCHGEAR_API_ALLOWED_HOSTS" in content["hint"]
    opened = create_app(store, Settings(api_allowed_hosts="rebound.example"), registry=CollectorRegistry())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=opened), base_url="http://rebound.example"
    ) as client:
        assert (await client.get("/v1/tools")).status_code == 200


async def test_wrong_sql_is_a_bad_request_and_refused_sql_forbidden(api):
    for query, status, word in (
        ("SELEC 1", 400, "Syntax"),
        ("SELECT nope FROM tool_metrics", 400, "nope"),
        ("", 400, "empty"),
        ("DROP TABLE tool_metrics", 403, "reading"),
    ):
        await refused(api, status, word, "/v1/sql", method="POST", json={"query": query})


async def test_health_is_the_process_and_readiness_what_it_needs(api, store, checks):
    assert (await api.get("/healthz")).json() == {"status": "ok"}
    ready = await api.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "checks": {"store": True, "kafka": True}})
    checks["kafka"] = False
    waiting = await api.get("/readyz")
    assert (waiting.status_code, waiting.json()["checks"]["kafka"]) == (503, False)


async def test_metrics_count_requests_by_route_and_never_by_name(api, store):
    await api.get("/v1/tools/some-tool")
    await api.get("/v1/tools?hours=0")
    text = (await api.get("/metrics")).text
    assert 'switchgear_api_requests_total{route="/v1/tools/{name:path}",status="404"} 1.0' in text
    assert 'switchgear_api_requests_total{route="/v1/tools",status="400"} 1.0' in text
    assert "switchgear_api_request_seconds_bucket" in text
    assert "some-tool" not in text


async def test_tables_that_are_not_made_yet_are_service_unavailable(api, store):
    await store.command("RENAME TABLE tool_counts_1m TO away")
    try:
        await refused(api, 503, "tables do not exist", "/v1/tools")
    finally:
        await store.command("RENAME TABLE away TO tool_counts_1m")
    assert (await api.get("/v1/tools")).status_code == 200


async def test_not_a_number_never_reaches_the_answer(api, store):
    await store_calls(store, [call("search", "rejected")])
    report = (await api.get("/v1/tools")).json()["tool_reports"][0]
    assert all(math.isfinite(value) for value in report.values() if isinstance(value, float))


LOCAL = {
    "refused": 3, "refused_by": "local", "state": "open", "scope": "tool", "retry_after_s": 45.0, "last_error": "OSError: no",
    "cause": {"rule": "consecutive_failures", "value": 5.0, "threshold": 5.0, "sample": 5, "failed": 5},
}  # fmt: skip


def refusal(tool="search", **fields):
    half_a_minute_ago = datetime.now(UTC) - timedelta(seconds=30)
    given = {"at": half_a_minute_ago, "emitter_id": "p1", "service": "planner", "metadata": LOCAL}
    return call(tool, "rejected", **given | fields)


@pytest.mark.parametrize("path", ["/v1/circuits", "/v1/circuits?tool=search", "/v1/tools/search"])
async def test_circuits_that_processes_opened_are_apart_from_the_fleets(api, store, path):
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=30)
    by_the_fleet = {"refused": 9, "refused_by": "fleet"}
    await store_calls(store, [refusal(at=at), refusal(at=at, emitter_id="p2"), refusal(at=at, metadata=by_the_fleet)])
    answer = (await api.get(path)).json()
    assert (list(answer["circuits"]), answer["local_within_s"]) == ([], 600.0)
    (local,) = answer["local_circuits"]
    assert (local["tool_name"], local["service"], local["scope"], local["state"]) == (
        "search",
        "planner",
        "tool",
        "open",
    )
    assert (local["processes"], local["refusals"], local["last_error"]) == (2, 6, "OSError: no")
    assert local["cause"].items() >= LOCAL["cause"].items()
    times = [datetime.fromisoformat(local[name]) for name in ("since", "last_refusal_at", "open_until")]
    assert times == [at, at, at + timedelta(seconds=45)]


async def test_local_circuits_of_another_tool_are_left_out(api, store):
    await store_calls(store, [refusal("other"), call("search", at=now())])
    assert (await api.get("/v1/circuits?tool=search")).json()["local_circuits"] == []
    assert (await api.get("/v1/tools/search")).json()["local_circuits"] == []


@pytest.mark.parametrize(
    "path", ["/v1/circuits/search", "/v1/circuits/search/history", "/v1/circuits/search?history=1"]
)
async def test_answer_for_a_circuit_that_only_processes_have_says_so(api, store, path):
    await store_calls(store, [refusal()])
    content = await refused(api, 404, "Processes opened their own", path)
    assert content["hint"] == "`switchgear tool search` shows them."
    await refused(api, 404, "The circuit 'other' does not exist", path.replace("search", "other"))
