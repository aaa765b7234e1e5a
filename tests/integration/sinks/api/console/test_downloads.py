"""Results of SQL as files."""

import csv
import io

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_schemas.settings import Settings
from switchgear_sinks.api import create_app
from tests.support.engine import call, store_calls

QUERY = "SELECT tool_name, count() AS calls FROM tool_metrics GROUP BY tool_name ORDER BY tool_name"


@pytest.fixture
async def send(store):
    await store_calls(store, [call(name) for name in ("a", 'b "quoted", with comma', "c\nline") for _ in range(2)])
    app = create_app(store, Settings(sql_max_rows=2), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))

    async def asked(form, query=QUERY):
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as http:
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
    parquet = (await send("parquet")).content
    assert (parquet[:4], parquet[-4:]) == (b"PAR1", b"PAR1")
    assert b"tool_name" in parquet
    assert (await send("json")).json()["truncated"] is True
    for form in ("csv", "parquet"):
        assert (await send(form, "SELECT * FROM file('/etc/passwd')")).status_code == 403
        assert (await send(form, "DROP TABLE tool_metrics")).status_code == 403
    assert (await send("xlsx")).status_code == 400
