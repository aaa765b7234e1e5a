"""Results of SQL as files."""

import csv
import io

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_schemas.settings import Settings
from tests.support.deep import some
from tests.support.engine import call, store_calls
from tests.support.limits import HAPPEN_S

QUERY = "SELECT tool_name, count() AS calls FROM tool_metrics GROUP BY tool_name ORDER BY tool_name"


@pytest.fixture
async def send(store):
    await store_calls(store, [call(name) for name in ("a", 'b "quoted", with comma', "c\nline") for _ in range(2)])
    app = create_app(store, Settings(sql_max_rows=2), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))

    async def asked(form, query=QUERY):
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=HAPPEN_S) as http:
            return await http.post("/v1/sql", params={"format": form}, json={"query": query})

    return asked


async def test_result_can_be_downloaded_as_csv_or_parquet_within_the_limit_of_rows_and_reads_only(send):
    answer = await send("csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="query.csv"'
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["tool_name", "calls"],
        ["a", "2"],
        ['b "quoted", with comma', "2"],
    ]
    assert answer.headers["x-switchgear-truncated"] == "true"
    formulas = "SELECT '=1+1' AS name, -5 AS change, [-1, -2] AS numbers, 'a - b' AS note"
    answer = await send("csv", formulas)
    assert answer.text == '"name","change","numbers","note"\n"\'=1+1",-5,"[-1,-2]","a - b"\n'
    assert (await send("json", formulas)).json()["rows"] == [["=1+1", -5, [-1, -2], "a - b"]]
    answer = await send("parquet")
    assert (answer.content[:4], answer.content[-4:]) == (b"PAR1", b"PAR1")
    assert b"tool_name" in answer.content
    assert answer.headers["x-switchgear-truncated"] == "true"
    assert (await send("json")).json()["truncated"] is True
    for form in ("csv", "parquet"):
        assert (await send(form, "SELECT * FROM file('/etc/passwd')")).status_code == 403
        assert (await send(form, "DROP TABLE tool_metrics")).status_code == 403
    assert (await send("xlsx")).status_code == 400


@pytest.mark.parametrize("form", some(["csv", "parquet"], 1))
@pytest.mark.parametrize(
    "query",
    some([
        "SELECT number FROM numbers(2)", "SELECT 'a\n\n\nb' AS x", "SELECT number FROM numbers(9) LIMIT 2 -- two", "SELECT 1 AS a WHERE 0;",
        "DESCRIBE TABLE operator_actions", "EXPLAIN SELECT number FROM numbers(9)",
    ], 2),
)  # fmt: skip
async def test_file_that_has_every_row_is_not_marked_as_cut(send, form, query):
    answer = await send(form, query)
    assert answer.status_code == 200, answer.text
    assert "x-switchgear-truncated" not in answer.headers


@pytest.mark.deep
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "query", ["SELECT number FROM numbers(3) ;", "WITH 3 AS n SELECT number, n, n + 1 FROM numbers(n) -- all"]
)
async def test_file_that_lacks_a_row_is_marked_as_cut(send, form, query):
    assert (await send(form, query)).headers["x-switchgear-truncated"] == "true"
