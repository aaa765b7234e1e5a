"""Where the SQL of readers may run, and what the API says where it may not."""

import httpx
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from switchgear_api.app import create_app
from switchgear_api.readonly import access
from switchgear_schemas.settings import Settings
from tests.support.limits import HAPPEN_S


async def ask(store, query, **settings) -> tuple[httpx.Response, str]:
    """The answer, and the walls that the log names at the start."""
    with capture_logs() as logged:
        app = create_app(store, Settings(**settings), registry=CollectorRegistry())
    walls = next(each["walls"] for each in logged if "walls" in each)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://localhost", timeout=HAPPEN_S
    ) as api:
        return await api.post("/v1/sql", json={"query": query}), walls


@pytest.fixture
def unwalled_system(monkeypatch):
    monkeypatch.setattr(access, "missing", lambda: "it needs Linux, and this is darwin")


async def test_a_query_runs_behind_both_walls_and_the_log_says_so(store):
    answer, walls = await ask(store, "SELECT 1")
    assert answer.json()["rows"] == [[1]]
    assert "Landlock" in walls
    assert "seccomp" in walls


async def test_sql_is_refused_if_the_kernel_has_no_sandbox(store, unwalled_system):
    answer, walls = await ask(store, "SELECT 1")
    assert answer.status_code == 403
    assert "this is darwin" in answer.json()["error"]
    assert "SWITCHGEAR_SQL_UNWALLED=true" in answer.json()["hint"]
    assert walls.startswith("refused")


async def test_setting_allows_sql_without_the_sandbox_and_the_log_says_what_is_missing(
    store, unwalled_system, tmp_path
):
    answer, walls = await ask(store, "SELECT 1", sql_unwalled=True)
    assert answer.json()["rows"] == [[1]]
    assert "this is darwin" in walls
    (tmp_path / "secret").write_text("the-secret")
    answer, _ = await ask(store, f"SELECT * APPLY(file) FROM (SELECT '{tmp_path}/secret' AS x)", sql_unwalled=True)
    assert answer.status_code == 403
    assert "the-secret" not in answer.text


@pytest.mark.deep
async def test_with_the_first_wall_off_a_query_reads_no_file_through_the_api(store, tmp_path, monkeypatch):
    """The whole way with no check of the text: what answers is the engine behind the second wall."""
    from switchgear_api.readonly.gate import Gate  # noqa: PLC0415

    monkeypatch.setattr(Gate, "admit", lambda _self, _ask, sql: sql)
    (tmp_path / "secret").write_text("the-secret")
    answer, _ = await ask(store, f"SELECT * APPLY(file) FROM (SELECT '{tmp_path}/secret' AS x)")
    assert answer.status_code in {400, 403}
    assert "the-secret" not in answer.text
    assert "ermission denied" in answer.text
    answer, _ = await ask(store, "SELECT count() FROM tool_metrics")
    assert answer.json()["rows"] == [[0]]


@pytest.mark.deep
async def test_query_that_takes_too_long_is_ended_with_a_limit_error(store):
    answer, _ = await ask(
        store,
        "SELECT sum(editDistance(repeat('a', 60000), repeat('b', 60000 + number % 3))) FROM numbers(1000)",
        sql_max_seconds=0.5,
    )
    assert answer.status_code == 422
    assert answer.json()["hint"]


@pytest.mark.deep
async def test_an_answer_of_many_megabytes_is_passed_on_as_it_is(store):
    answer, _ = await ask(
        store, "SELECT repeat('x', 1000000) AS a, toUInt64(18446744073709551615) AS b FROM numbers(30)"
    )
    rows = answer.json()["rows"]
    assert [(len(text), number) for text, number in rows] == [(1_000_000, 18446744073709551615)] * 30
