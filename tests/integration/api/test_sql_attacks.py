"""SQL from outside can never write, read files or reach the network: attempts on the real engine, and which layer stops them.

Layer 1 is the gate: ClickHouse's own parser, judged by an allowlist. Layer 2 is the session: ``readonly = 1`` and
limits. The attempts that layer 2 lets through are the reason for layer 1, and a test holds them to it.
"""

import asyncio
from datetime import UTC, datetime

import httpx
import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_api.readonly import ReadOnlySql, SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_schemas.settings import Settings
from tests.support.canary import SECRET
from tests.support.deep import some
from tests.support.engine import call, store_calls
from tests.support.limits import HAPPEN_S
from tests.support.table import table

WRITES = """
INSERT INTO tool_metrics (tool_name, status) VALUES ('x', 'success')
INSERT INTO tool_metrics (tool_name, status) SELECT 'x', 'success'
INSERT INTO FUNCTION file('{folder}/written.csv', 'CSV', 'a UInt8') SELECT 1
INSERT INTO tool_metrics FROM INFILE '{secret}' FORMAT JSONEachRow
CREATE TABLE evil (a Int32) ENGINE = Memory
CREATE TEMPORARY TABLE evil (a Int32)
CREATE TABLE evil ENGINE = File(CSV) AS SELECT 1
CREATE TABLE evil (a Int32) ENGINE = URL('{url}', CSV)
CREATE DATABASE evil
CREATE VIEW evil AS SELECT 1
CREATE MATERIALIZED VIEW evil ENGINE = Memory AS SELECT 1
CREATE DICTIONARY evil (a UInt64) PRIMARY KEY a SOURCE(HTTP(url '{url}' format 'CSV')) LAYOUT(FLAT()) LIFETIME(1)
CREATE FUNCTION evil AS (x) -> file('{secret}')
CREATE USER evil IDENTIFIED WITH no_password
CREATE NAMED COLLECTION evil AS a = 1
ATTACH TABLE evil (a Int32) ENGINE = File(CSV, '{secret}')
DROP TABLE tool_metrics
TRUNCATE TABLE tool_metrics
ALTER TABLE tool_metrics DELETE WHERE 1
ALTER TABLE tool_metrics ADD COLUMN evil Int8
ALTER TABLE tool_metrics UPDATE user_id = 'x' WHERE 1
DELETE FROM tool_metrics WHERE 1
OPTIMIZE TABLE tool_metrics FINAL
RENAME TABLE tool_metrics TO evil
EXCHANGE TABLES tool_metrics AND tool_errors
BACKUP TABLE tool_metrics TO File('{folder}/backup')
RESTORE TABLE tool_metrics FROM File('{folder}/backup')
GRANT ALL ON *.* TO default
SELECT * FROM tool_metrics INTO OUTFILE '{folder}/written.csv'
SELECT * FROM tool_metrics INTO OUTFILE '{folder}/written.csv' FORMAT CSV
SELECT * FROM tool_metrics INTO OUTFILE '{folder}/written.csv' TRUNCATE COMPRESSION 'gzip'
SELECT 1 UNION ALL SELECT 2 INTO OUTFILE '{folder}/written.csv'
EXPLAIN SELECT 1 INTO OUTFILE '{folder}/written.csv'
EXPLAIN AST SELECT 1 INTO OUTFILE '{folder}/written.csv'
DESCRIBE TABLE tool_metrics INTO OUTFILE '{folder}/written.csv'
SHOW TABLES INTO OUTFILE '{folder}/written.csv'
SHOW CREATE TABLE tool_metrics INTO OUTFILE '{folder}/written.csv'
SELECT * FROM sqlite('{folder}/written.db', 't')
SELECT 1; DROP TABLE tool_metrics
SELECT 1;\tINSERT INTO tool_metrics (tool_name, status) VALUES ('x', 'success')
SELECT 1 /* ; */; SYSTEM SHUTDOWN
PARALLEL WITH DROP TABLE tool_metrics
"""

READS = """
SELECT * FROM file('{secret}', 'LineAsString', 's String')
SELECT * FROM file('{secret}')
SELECT * FROM FILE('{secret}', LineAsString)
SELECT file('{secret}')
SELECT FILE('{secret}')
SELECT (SELECT file('{secret}'))
SELECT arrayMap(x -> file(x), ['{secret}'])
SELECT count() FROM tool_metrics WHERE user_id = file('{secret}')
SELECT count() FROM tool_metrics GROUP BY file('{secret}') HAVING 1 ORDER BY file('{secret}')
WITH file('{secret}') AS x SELECT x
WITH (SELECT any(s) FROM file('{secret}', 'LineAsString', 's String')) AS x SELECT x
WITH x AS (SELECT * FROM file('{secret}', 'LineAsString', 's String')) SELECT * FROM x
SELECT 1 FROM numbers(1) JOIN (SELECT s FROM file('{secret}', 'LineAsString', 's String')) AS f ON 1
SELECT 1 UNION ALL SELECT file('{secret}')
SELECT user_id FROM tool_metrics WHERE user_id IN (SELECT s FROM file('{secret}', 'LineAsString', 's String'))
SELECT 'a' IN file('{secret}', 'LineAsString', 's String')
SELECT * FROM view(SELECT * FROM file('{secret}', 'LineAsString', 's String'))
SELECT * FROM viewIfPermitted(SELECT * FROM file('{secret}') ELSE null('x String'))
SELECT * FROM viewExplain('EXPLAIN', '', (SELECT file('{secret}')))
SELECT * FROM loop(file('{secret}', 'LineAsString', 's String'))
SELECT * FROM fileCluster('default', '{secret}')
SELECT * FROM filesystem('{folder}')
SELECT * FROM sqlite('{secret}', 't')
SELECT * FROM deltaLakeLocal('{folder}')
SELECT * FROM icebergLocal('{folder}')
SELECT * FROM executable('cat', TabSeparated, 's String', (SELECT 1))
SELECT * FROM '{secret}'
SELECT * FROM `{secret}`
SELECT * FROM "{secret}"
DESCRIBE file('{secret}')
DESCRIBE TABLE file('{secret}')
DESCRIBE (SELECT file('{secret}'))
EXPLAIN SELECT * FROM file('{secret}')
EXPLAIN ESTIMATE SELECT file('{secret}')
SELECT * FROM Python(secret)
SELECT * FROM python('secret')
SELECT * FROM dictionary('evil')
SELECT dictGet('evil', 'a', 1)
SELECT joinGet('system.users', 'name', 1)
SELECT catboostEvaluate('{secret}', 1)
SELECT * FROM eval('SELECT 1')
SELECT * FROM merge('system', '.*')
SELECT * FROM merge(currentDatabase(), '.*')
SELECT * FROM mergeTreeIndex(currentDatabase(), tool_metrics)
SELECT * FROM mergeTreeProjection(currentDatabase(), tool_errors, by_tool)
SELECT * FROM system.users
SELECT * FROM system.query_log
SELECT * FROM system.processes
SELECT * FROM system.settings
SELECT * FROM system.server_settings
SELECT * FROM system.named_collections
SELECT * FROM system.stack_trace
SELECT * FROM system.detached_parts
SELECT * FROM system . users
SELECT * FROM `system`.`users`
SELECT * FROM "system".users AS tool_metrics
SELECT 'default' IN system.users
SELECT 1 FROM tool_metrics WHERE user_id IN (SELECT name FROM system.users)
SELECT * FROM default.anything
SELECT getSetting('readonly')
SELECT getServerSetting('max_server_memory_usage')
SELECT getMacro('x')
SELECT getClientHTTPHeader('Authorization')
SELECT hostName(), FQDN(), currentUser(), serverUUID()
SELECT showCertificate()
SELECT addressToLine(1)
SELECT hasColumnInTable('system', 'users', 'name')
SELECT formatQuery('SELECT 1')
SELECT {x:Identifier}
SELECT 1 AS `x\\n   TableIdentifier tool_metrics`, file('{secret}') AS `y (children 0)`
"""

NETWORK = """
SELECT * FROM url('{url}', 'LineAsString', 's String')
SELECT * FROM urlCluster('default', '{url}', 'LineAsString', 's String')
SELECT * FROM s3('{url}/bucket/key', 'id', 'secret', 'CSV', 's String')
SELECT * FROM s3('{url}', NOSIGN, 'CSV')
SELECT * FROM s3Cluster('default', '{url}/bucket/key')
SELECT * FROM gcs('{url}/bucket/key')
SELECT * FROM azureBlobStorage('{url}', 'c', 'b', 'a', 'a2V5')
SELECT * FROM hdfs('hdfs://{address}/x', 'CSV')
SELECT * FROM remote('{address}', system.one)
SELECT * FROM remoteSecure('{address}', system.one)
SELECT * FROM cluster('default', system.one)
SELECT * FROM clusterAllReplicas('default', system.one)
SELECT * FROM mysql('{address}', 'd', 't', 'u', 'p')
SELECT * FROM postgresql('{address}', 'd', 't', 'u', 'p')
SELECT * FROM mongodb('{address}', 'd', 'c', 'u', 'p', 'a Int32')
SELECT * FROM redis('{address}', 'k', 'k String')
SELECT * FROM odbc('DSN=x', 'd', 't')
SELECT * FROM jdbc('jdbc:mysql://{address}/', 'd', 't')
SELECT * FROM iceberg('{url}/b/')
SELECT * FROM deltaLake('{url}/b/')
SELECT * FROM hudi('{url}/b/')
SELECT * FROM bigquery('{url}')
SELECT * FROM ytsaurus('{url}', '//x', 't', 'a Int32')
SELECT * FROM arrowstream('{url}')
SELECT aiGenerate('hello')
SELECT AIEmbed('hello')
SELECT 1 IN url('{url}', 'LineAsString', 's String')
DESCRIBE url('{url}', 'LineAsString')
SELECT * FROM prometheusQuery('{url}', 'x', 'y')
"""

CONTROLS = """
SET readonly = 0
SET max_execution_time = 0
SELECT 1 SETTINGS readonly = 0
SELECT 1 SETTINGS max_execution_time = 0
SELECT 1 SETTINGS max_threads = 64
SELECT * FROM (SELECT 1 SETTINGS max_memory_usage = 0)
SELECT * FROM (SELECT file('{secret}') SETTINGS readonly = 0)
SELECT 1 FORMAT CSV
SELECT 1 FORMAT JSON SETTINGS readonly = 0
SELECT 1 FORMAT Null
SYSTEM SHUTDOWN
SYSTEM FLUSH LOGS
SYSTEM DROP MARK CACHE
SYSTEM STOP MERGES
SYSTEM RELOAD CONFIG
KILL QUERY WHERE 1
KILL MUTATION WHERE 1
USE system
SET ROLE ALL
EXECUTE AS default SELECT 1
BEGIN TRANSACTION
SHOW GRANTS
SHOW SETTINGS LIKE '%'
SHOW PROCESSLIST
SHOW TABLES FROM system
CHECK TABLE tool_metrics
SELECT sleep(3)
SELECT sleepEachRow(3) FROM numbers(100)
SELECT * FROM input('a Int32')
SELECT * FROM generateRandom('a UInt64')
SELECT * FROM fuzzJSON('{}')
SELECT * FROM format(CSV, '1,2')
"""
ATTEMPTS = [line for block in (WRITES, READS, NETWORK, CONTROLS) for line in block.strip("\n").splitlines()]
ALLOWED = [
    "SELECT count(), uniqExact(metric_id) FROM tool_metrics",
    "select 1 -- with a comment\n;",
    "WITH x AS (SELECT tool_name FROM tool_metrics) SELECT count() FROM x",
    "SELECT tool_name FROM switchgear.tool_metrics WHERE tool_name IN ('a', 'b')",
    "SELECT tool_name FROM tool_metrics WHERE tool_name IN (SELECT tool_name FROM tool_errors)",
    "SELECT quantilesTDigestIf(0.5, 0.99)(execution_time_ms, status != 'rejected') FROM tool_metrics",
    "SELECT sum(calls) OVER (PARTITION BY tool_name ORDER BY minute) FROM tool_counts_1m",
    "SELECT a.number FROM numbers(3) AS a LEFT JOIN numbers(2) AS b USING (number)",
    "SELECT * FROM values('a UInt8, b String', (1, 'x'))",
    "(SELECT 1) UNION ALL (SELECT 2)",
    "SELECT arrayJoin([1, 2]) AS x WHERE x > 1",
    "SELECT formatReadableSize(sum(bytes_on_disk)) FROM system.parts",
    "SELECT name FROM system.columns WHERE table = 'tool_metrics'",
    "SELECT 'SELECT * FROM file(''/etc/passwd''); DROP TABLE tool_metrics'",
    "SHOW TABLES",
    "DESCRIBE tool_metrics",
    "SHOW CREATE TABLE tool_errors",
    "EXPLAIN indexes = 1 SELECT count() FROM tool_metrics WHERE tool_name = 'x'",
]
MAX_ROWS = 100


@pytest.fixture
def sql(store) -> ReadOnlySql:
    return ReadOnlySql(store.connect, embedded=True, max_rows=MAX_ROWS, max_seconds=30)


@pytest.fixture
def impatient(store) -> ReadOnlySql:
    return ReadOnlySql(store.connect, embedded=True, max_rows=MAX_ROWS, max_seconds=1)


async def test_attacks_are_refused_by_the_gate_and_leave_no_trace(store, sql, world):
    """Fails where an attempt became a mere syntax error, which would prove nothing; those that are, are listed."""
    await store_calls(store, [call("kept")])
    tables = (await store.query("SHOW TABLES")).result_rows
    by_luck, wrong = [], []
    for attempt in ATTEMPTS:
        try:
            answer = await asyncio.to_thread(sql.run, world.filled(attempt))
            wrong.append((attempt, f"is answered: {answer}"))
        except SqlFailedError as error:
            said = str(error)
            by_luck.append((attempt, said))
        except SqlRefusedError as error:
            said = str(error)
        if SECRET in said or world.traces():
            wrong.append((attempt, f"{said}; {world.traces()}"))
    assert not wrong
    assert (await store.query("SHOW TABLES")).result_rows == tables
    assert (await store.query("SELECT count(), any(user_id) FROM tool_metrics")).result_rows == [(1, "u")]
    assert {attempt.partition("(")[0] for attempt, _ in by_luck} <= {
        "PARALLEL WITH DROP TABLE tool_metrics",  # needs two statements
        "SELECT catboostEvaluate",  # not built into this engine
        "SELECT {x:Identifier}",  # a parameter without a value
        "INSERT INTO tool_metrics FROM INFILE '{secret}' FORMAT JSONEachRow",
        "CREATE NAMED COLLECTION evil AS a = 1",
        "SELECT * FROM viewIfPermitted",
    }, by_luck


@pytest.mark.parametrize(
    "attempt",
    [
        "SELECT file('{secret}')",
        "DESCRIBE file('{secret}')",
        "SELECT 1 INTO OUTFILE '{folder}/written.csv'",
        "SELECT * FROM sqlite('{folder}/written.db', 't')",
    ],
)
def test_readonly_setting_alone_does_not_stop_the_attacks_in_the_embedded_engine(store, world, attempt):
    """Documents why there is a gate: should this fail after an upgrade, ClickHouse has closed the gap."""
    client = store.connect({"allow_ddl": 0, "readonly": 1})
    try:
        try:
            answer = client.raw_query(world.filled(attempt))
        except ClickHouseError:
            answer = b""
    finally:
        client.close()
    leaked = b"the-secret" in answer or b"c1" in answer
    assert leaked or world.traces()


@pytest.mark.parametrize(
    "attempt",
    [
        "INSERT INTO tool_metrics (tool_name, status) VALUES ('x', 'success')",
        "DROP TABLE tool_metrics",
        "SELECT * FROM file('{secret}', 'LineAsString', 's String')",
        "SELECT * FROM url('{url}', 'LineAsString', 's String')",
        "SELECT * FROM mysql('{address}', 'd', 't', 'u', 'p')",
        "SELECT * FROM executable('cat', TabSeparated, 's String')",
        "SELECT 1 SETTINGS readonly = 0",
    ],
)
def test_behind_the_gate_clickhouse_itself_refuses_what_it_can(store, sql, world, attempt):
    client = store.connect()
    try:
        with pytest.raises(SqlRefusedError):
            sql._answer(sql._limited(client, 10), world.filled(attempt), "JSONCompact")
    finally:
        client.close()
    assert world.traces() == []


@table("query", ALLOWED)
def test_query_that_reads_the_store_runs(sql, query):
    result = sql.run(query)
    assert result.columns
    assert result.truncated is False


@pytest.mark.parametrize(
    "flood",
    some([
        "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1",
        "SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))",
        "SELECT groupArray(number) FROM numbers(10000000000)",
        "SELECT repeat(toString(number), 1000000) AS a FROM numbers(100) ORDER BY a",
        "SELECT repeat('x', 100000000) FROM numbers(100)",
        "SELECT uniqExact(number) FROM numbers_mt(10000000000)",
        "SELECT a.number FROM numbers(10000000) AS a CROSS JOIN numbers(10000000) AS b ORDER BY a.number",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT count() FROM x",
    ], 3),
)  # fmt: skip
def test_expensive_query_hits_a_limit_and_the_engine_survives(sql, impatient, flood):
    with pytest.raises((SqlLimitError, SqlFailedError)):
        impatient.run(flood)
    assert sql.run("SELECT 1").rows == [[1]], "and nothing of the failed answer is in the next"


def test_rows_beyond_the_limit_are_cut_and_the_answer_is_marked(sql):
    full = sql.run(f"SELECT number FROM numbers({MAX_ROWS})")
    assert (len(full.rows), full.truncated) == (MAX_ROWS, False)
    cut = sql.run(f"SELECT number FROM numbers({MAX_ROWS + 1})")
    assert (len(cut.rows), cut.truncated, cut.rows[-1]) == (MAX_ROWS, True, [MAX_ROWS - 1])
    assert sql.run("SELECT * FROM system.numbers").truncated
    assert sql.run("SELECT number FROM numbers(5000) ORDER BY number DESC LIMIT 3").rows == [[4999], [4998], [4997]]


def test_the_limit_cuts_the_answer_and_not_what_is_counted(sql):
    assert sql.run("SELECT count() FROM (SELECT number FROM numbers(5000))").rows == [[5000]]
    assert sql.run("WITH x AS (SELECT number FROM numbers(5000)) SELECT sum(number) FROM x").rows == [[12_497_500]]
    assert sql.run("SELECT number IN (SELECT number FROM numbers(5000)) FROM numbers(4999, 1)").rows == [[1]]


def test_query_answers_json_values_with_their_types(sql):
    result = sql.run(
        "SELECT toUInt64(18446744073709551615) AS big, toDateTime64('2026-03-01 12:00:00.123456', 6, 'UTC') AS at, "
        "[1, 2] AS list, map('a', 1) AS map, NULL AS nothing, 1 / 0 AS inf, true AS yes, 'ü' AS text"
    )
    assert [column["name"] for column in result.columns] == [
        "big",
        "at",
        "list",
        "map",
        "nothing",
        "inf",
        "yes",
        "text",
    ]
    assert result.rows == [
        [18446744073709551615, "2026-03-01 12:00:00.123456", [1, 2], {"a": 1}, None, "inf", True, "ü"]
    ]


@pytest.mark.deep
async def test_queries_wait_for_each_other_and_a_busy_api_answers_503(store):
    settings = Settings(sql_max_seconds=2)
    app = create_app(store, settings, registry=CollectorRegistry())
    slow = {"query": "SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://localhost", timeout=HAPPEN_S
    ) as api:
        started = datetime.now(UTC)
        answers = await asyncio.gather(*[api.post("/v1/sql", json=slow) for _ in range(8)])
        took = (datetime.now(UTC) - started).total_seconds()
        for _ in range(10):
            after = await api.post("/v1/sql", json={"query": "SELECT 1"})
            if after.status_code == 200:
                break
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {422, 503}
    assert took < 60
    assert after.json()["rows"] == [[1]]
