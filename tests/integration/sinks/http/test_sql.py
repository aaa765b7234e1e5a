"""The SQL endpoint over a ClickHouse server: it answers, it keeps to its limits, and it refuses what it refuses in the engine."""

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_schemas.settings import Settings
from tests.integration.api.test_sql_attacks import ALLOWED, ATTEMPTS
from tests.support.canary import SECRET, Listener, World
from tests.support.clickhouse_http import READER
from tests.support.engine import TABLES, call, store_calls

pytestmark = pytest.mark.deep


@pytest.fixture
async def api(store):
    settings = Settings(sql_max_rows=5, sql_max_seconds=5, clickhouse_reader_url=url_of(store, READER))
    app = create_app(store, settings, registry=CollectorRegistry())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
        yield client


def url_of(store, user) -> str:
    return f"http://{user}:secret@{store.location.host}:{store.location.port}/{store.database}"


async def refusal(store, **settings) -> dict[str, str]:
    app = create_app(store, Settings(**settings), registry=CollectorRegistry())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
        answer = await ask(client, "SELECT 1")
    assert answer.status_code == 403
    return answer.json()


async def test_sql_on_a_server_is_refused_without_a_read_only_user(store):
    refused = await refusal(store)
    assert "none is set" in refused["error"]
    assert "CREATE USER switchgear_reader" in refused["hint"]
    assert "SWITCHGEAR_CLICKHOUSE_READER_URL" in refused["hint"]


async def test_a_user_who_may_do_more_than_read_is_refused(store):
    refused = await refusal(store, clickhouse_reader_url=url_of(store, "default"))
    assert "the ClickHouse user default" in refused["error"]
    assert "readonly" in refused["error"]
    assert "secret" not in str(refused)


async def ask(api, query) -> httpx.Response:
    return await api.post("/v1/sql", json={"query": query})


async def test_query_on_a_server_is_answered(api, store):
    await store_calls(store, [call("t"), call("u", "error")])
    answer = await ask(api, "SELECT tool_name, count() AS n FROM tool_metrics GROUP BY tool_name ORDER BY tool_name")
    assert answer.status_code == 200
    assert answer.json()["rows"] == [["t", 1], ["u", 1]]
    assert [column["name"] for column in answer.json()["columns"]] == ["tool_name", "n"]


async def test_answer_above_the_row_limit_is_cut_and_marked(api):
    content = (await ask(api, "SELECT number FROM numbers(50)")).json()
    assert (content["row_count"], content["truncated"]) == (5, True)


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_attack_on_a_server_is_refused_and_changes_nothing(api, tmp_path, attempt):
    world = World.in_folder(tmp_path, Listener("127.0.0.1:9"))
    answer = await ask(api, world.filled(attempt))
    assert answer.status_code in {400, 403}, answer.text
    assert answer.json()["error"]
    assert SECRET not in answer.text
    assert world.traces() == []


async def test_tables_exist_after_all_attacks(store):
    tables = {row[0] for row in (await store.query("SHOW TABLES")).result_rows}
    assert set(TABLES) <= tables


@pytest.mark.parametrize("query", ALLOWED)
async def test_allowed_query_runs_on_a_server(api, query):
    assert (await ask(api, query)).status_code == 200


async def test_the_routes_of_tools_and_errors_answer(api, store):
    await store_calls(store, [*[call("t", execution_time_ms=7000)] * 5, call("t", "error", error_message="no city 7")])
    assert (await api.get("/v1/tools")).json()["summary"]["unhealthy"] == 1
    assert (await api.get("/v1/tools/t")).json()["stored_calls"] == 6
    assert len((await api.get("/v1/errors")).json()["errors"]) == 1
    assert len((await api.get("/v1/slow")).json()["executions"]) == 5
    assert (await api.get("/v1/circuits")).json()["circuits"] == {}
    assert (await api.get("/readyz")).status_code == 200
