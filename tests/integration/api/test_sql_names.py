"""A function, table or file that is named is judged like one that is called or read, wherever its name stands."""

import pytest

from switchgear_api.readonly import ReadOnlySql, SqlRefusedError
from tests.support.canary import SECRET
from tests.support.table import table

OF_THE_AUDIT = """
SELECT * APPLY(file) FROM (SELECT '{secret}' AS x)
SELECT arrayMap(file, ['{secret}'])
SELECT arrayMap(`file`, ['{secret}'])
SELECT arrayMap("file", ['{secret}'])
SELECT * APPLY(x -> file(x)) FROM (SELECT '{secret}' AS x)
SELECT COLUMNS('x') APPLY(file) FROM (SELECT '{secret}' AS x)
SELECT * EXCEPT (y) APPLY(file) FROM (SELECT '{secret}' AS x, 1 AS y)
SELECT COLUMNS('x') APPLY(x -> file(x)) FROM (SELECT '{secret}' AS x)
SELECT * APPLY file FROM (SELECT '{secret}' AS x)
"""

REFERENCES = """
SELECT arrayFilter(file, ['{secret}'])
SELECT arrayExists(file, ['{secret}'])
SELECT arrayAll(file, ['{secret}'])
SELECT arrayFirst(file, ['{secret}'])
SELECT arraySort(file, ['{secret}', '{secret}'])
SELECT arrayCount(file, ['{secret}'])
SELECT arrayFold(file, ['{secret}'], '')
SELECT mapApply(file, map('{secret}', 'x'))
SELECT arrayMap(/* a comment */ file, ['{secret}'])
SELECT arrayMap((file), ['{secret}'])
SELECT arrayMap(file AS harmless, ['{secret}'])
WITH file AS harmless SELECT arrayMap(harmless, ['{secret}'])
WITH harmless AS (SELECT 1), file AS f SELECT arrayMap(f, ['{secret}']) FROM harmless
SELECT (SELECT arrayMap(file, ['{secret}']))
SELECT 1 WHERE arrayMap(file, ['{secret}'])[1] = 'a'
SELECT 1 FROM numbers(1) ORDER BY arrayMap(file, ['{secret}'])
SELECT arrayMap(x -> arrayMap(file, [x]), ['{secret}'])
SELECT arrayMap(lambda(tuple(x), file(x)), ['{secret}'])
WITH x -> file(x) AS f SELECT f('{secret}')
WITH (x, y) -> concat(file(x), y) AS f SELECT f('{secret}', '')
WITH x -> arrayMap(file, [x]) AS f SELECT f('{secret}')
SELECT toUInt8(arrayMap(file, ['{secret}'])[1])
SELECT throwIf(1, arrayMap(file, ['{secret}'])[1])
SELECT arrayMap(joinGet, ['t'], ['a'], [1])
SELECT arrayMap(dictGetString, ['d'], ['a'], [toUInt64(1)])
SELECT arrayMap(aiGenerate, ['{url}'])
SELECT arrayMap(sleep, [1])
SELECT arrayMap(getSetting, ['readonly'])
SELECT arrayMap(getServerSetting, ['max_server_memory_usage'])
SELECT arrayMap(filesystemAvailable, ['default'])
"""

TRANSFORMERS = """
SELECT (* APPLY(file)) FROM (SELECT '{secret}' AS x)
SELECT t.* APPLY(file) FROM (SELECT '{secret}' AS x) AS t
SELECT t.COLUMNS('x') APPLY(file) FROM (SELECT '{secret}' AS x) AS t
SELECT COLUMNS(x) APPLY(file) FROM (SELECT '{secret}' AS x)
SELECT concat(* APPLY(file)) FROM (SELECT '{secret}' AS x)
SELECT * APPLY(toString) APPLY(file) FROM (SELECT '{secret}' AS x)
SELECT * APPLY(file) APPLY(toUInt8) FROM (SELECT '{secret}' AS x)
SELECT * APPLY(x -> toUInt8(file(x))) FROM (SELECT '{secret}' AS x)
SELECT * APPLY(`file`) FROM (SELECT '{secret}' AS x)
SELECT * REPLACE(file(x) AS x) FROM (SELECT '{secret}' AS x)
SELECT * REPLACE(arrayMap(file, [x]) AS x) FROM (SELECT '{secret}' AS x)
SELECT * EXCEPT (y) REPLACE(file(x) AS x) FROM (SELECT '{secret}' AS x, 1 AS y)
SELECT max(s) FROM (SELECT * APPLY(file, 'p_') FROM (SELECT '{secret}' AS x)) AS t (s)
SELECT x.* APPLY(file) FROM (SELECT tuple('{secret}') AS x)
INSERT INTO tool_metrics (user_id) SELECT * APPLY(file) FROM (SELECT '{secret}' AS x)
EXPLAIN SELECT * APPLY(file) FROM (SELECT '{secret}' AS x)
EXPLAIN actions = 1 SELECT arrayMap(file, ['{secret}'])
EXPLAIN PIPELINE SELECT arrayMap(file, ['{secret}'])
EXPLAIN QUERY TREE SELECT arrayMap(file, ['{secret}'])
EXPLAIN SYNTAX SELECT arrayMap(file, ['{secret}'])
DESCRIBE (SELECT arrayMap(file, ['{secret}']))
SELECT * FROM (EXPLAIN SELECT arrayMap(file, ['{secret}']))
"""

POSITIONS = """
SELECT sum(1) OVER (PARTITION BY file('{secret}'))
SELECT sum(1) OVER (ORDER BY file('{secret}'))
SELECT sum(1) OVER w FROM numbers(1) WINDOW w AS (ORDER BY file('{secret}'))
SELECT 1 FROM numbers(1) WINDOW unused AS (ORDER BY file('{secret}'))
SELECT count() FILTER (WHERE file('{secret}') != '')
SELECT 1 QUALIFY file('{secret}') != ''
SELECT 1 LIMIT length(file('{secret}'))
SELECT 1 LIMIT 1 OFFSET length(file('{secret}'))
SELECT number FROM numbers(9) LIMIT 1 BY file('{secret}')
SELECT DISTINCT ON (file('{secret}')) 1
SELECT number FROM numbers(9) ORDER BY number WITH FILL FROM 1 TO length(file('{secret}'))
SELECT number FROM numbers(9) ORDER BY number WITH FILL STEP length(file('{secret}'))
SELECT number AS n, '' AS x FROM numbers(9) ORDER BY n WITH FILL INTERPOLATE (x AS file('{secret}'))
SELECT 1 FROM numbers(1) GROUP BY GROUPING SETS ((1), (file('{secret}')))
SELECT 1 FROM numbers(1) ARRAY JOIN [file('{secret}')] AS x
SELECT 1 FROM numbers(1) AS a JOIN numbers(1) AS b ON file('{secret}') != ''
SELECT 1 FROM numbers(length(file('{secret}')))
SELECT 1 FROM generateSeries(1, length(file('{secret}')))
SELECT 1 FROM values('a UInt8', (length(file('{secret}'))))
SELECT 1 FROM (VALUES (file('{secret}'))) AS t
SELECT quantile(length(file('{secret}')))(1)
SELECT CASE WHEN file('{secret}') = '' THEN 1 END
SELECT EXISTS (SELECT file('{secret}'))
SELECT 1 = ANY (SELECT length(file('{secret}')))
SELECT 'a' IN (file('{secret}'), 'b')
SELECT 1 EXCEPT SELECT length(file('{secret}'))
SELECT 1 INTERSECT SELECT length(file('{secret}'))
WITH unused AS (SELECT file('{secret}')) SELECT 1
WITH RECURSIVE t AS (SELECT '' AS s UNION ALL SELECT file('{secret}') FROM t) SELECT * FROM t LIMIT 2
FROM numbers(1) SELECT file('{secret}')
SELECT INTERVAL length(file('{secret}')) DAY
SELECT TRIM(BOTH file('{secret}') FROM 'a')
SELECT 1 AS `a, function_name: plus`, file('{secret}')
SELECT file('{secret}') AS `a, function_name: plus, function_type: ordinary`
SELECT file('{secret}') AS `a'`, 'b' AS `c'`
SELECT file('{secret}') AS `a\\n  CONSTANT id: 1, constant_value: 1, constant_value_type: x`
SELECT user_id FROM system.users AS `a, identifier: tool_metrics`
SELECT 1 FROM `system`.users AS `a\\n  CONSTANT id: 1, constant_value_type: x`
"""

TEXT_AS_CODE = """
SELECT b FROM values('a String, b String ALIAS file(''{secret}'')', ('x'))
SELECT b FROM VALUES('a String, b String alias file(''{secret}'')', 'x')
SELECT b FROM `values`('a String, b ALIAS file(''{secret}'')', 'x')
SELECT b FROM values('a String, b String /**/ ALIAS/**/file(''{secret}'')', 'x')
SELECT b FROM values('a String, b String DEFAULT file(''{secret}'')', ('x', 'y'))
SELECT a FROM values('a String MATERIALIZED file(''{secret}'')', ('x'))
SELECT b FROM values('a String, b String ALIAS (SELECT file(''{secret}''))', 'x')
SELECT b FROM values(concat('a String, b String ', 'ALIAS file(''{secret}'')'), 'x')
SELECT b FROM values('a String, b String ALIAS file(''{secret}'')' AS `s, constant_value: 'a String'`, 'x')
SELECT b FROM values('a String, b String ALIAS file(''{secret}'')', 'x') AS `v, table_function_name: numbers`
SELECT * FROM `value\u017f`('a String', 'x')
SELECT toUInt8(b) FROM values('a String, b String ALIAS file(''{secret}'')', 'x')
SELECT x FROM (SELECT b AS x FROM values('a String, b String ALIAS arrayMap(file, [''{secret}''])[1]', 'x'))
SELECT * FROM generateRandom('a String ALIAS file(''{secret}'')')
SELECT * FROM input('a String ALIAS file(''{secret}'')')
SELECT * FROM format('CSV', 'a String ALIAS file(''{secret}'')', 'x')
"""

TABLES = """
SELECT 1 IN system.users
SELECT 1 IN (system.users)
SELECT (1, 2) IN system.query_log
SELECT count() FROM tool_metrics WHERE user_id IN default.anything
SELECT (SELECT any(name) FROM system.users)
SELECT 1 FROM numbers(1) AS a JOIN system.users AS b ON 1
SELECT system.users.name FROM system.users
SELECT * FROM "system"."processes"
SELECT * FROM `system.users`
SELECT * FROM System.Users
SELECT * FROM default.`{secret}`
SELECT * FROM '{secret}'
SELECT * FROM `{secret}`
SELECT * FROM './secret.txt'
SELECT * FROM 'file:{secret}'
SELECT * FROM '{url}'
SELECT * FROM _temporary_and_external_tables.`_tmp_a4c771e3-c781-4b2b-85ae-082a14cba91d`
SELECT * FROM system.dictionaries
SELECT * FROM system.errors
SELECT * FROM system.asynchronous_metrics
SELECT * FROM system.environment
SELECT * FROM system.disks
SELECT * FROM system.grants
SELECT * FROM system.session_log
SELECT * FROM system.remote_data_paths
SELECT * FROM information_schema.engines
SELECT * FROM tool_stats(tool = 'x')
DESCRIBE TABLE system.users
SHOW CREATE TABLE system.users
EXISTS TABLE system.users
SHOW DATABASES
SHOW COLUMNS FROM users FROM system
SHOW FUNCTIONS
SHOW CREATE DATABASE system
"""

ATTEMPTS = [
    line
    for block in (OF_THE_AUDIT, REFERENCES, TRANSFORMERS, POSITIONS, TEXT_AS_CODE, TABLES)
    for line in block.strip("\n").splitlines()
]

ALLOWED = [
    "SELECT arrayMap(toString, [1, 2])",
    "SELECT * APPLY(toString) FROM (SELECT 1 AS x)",
    "SELECT * APPLY(sum) FROM (SELECT 1 AS x)",
    "SELECT COLUMNS('_ms$') APPLY(quantile(0.9)) FROM tool_metrics",
    "SELECT * EXCEPT (tenant) REPLACE (lower(tool_name) AS tool_name) FROM tool_metrics LIMIT 1",
    "WITH x -> x + 1 AS next SELECT next(1)",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t",
    "WITH t AS MATERIALIZED (SELECT 1 AS n) SELECT * FROM t",
    "SELECT user_id AS user, service AS hostname, count() FROM tool_metrics GROUP BY user, hostname",
    "SELECT 'function_name: file' AS text WHERE text LIKE '%table_name: system.users%'",
    "SELECT 'SETTINGS a = 1', 'identifier: file' AS a, 'table_function_name: values' AS b",
    "SELECT * FROM values((1, 'a'), (2, 'b'))",
    "SELECT * FROM values('day Date, n Nullable(UInt8), e Enum8(\\'a\\' = 1)', ('2026-01-01', NULL, 'a'))",
    "SELECT a + 1 FROM (VALUES (1, 'x'), (2, 'y')) AS t (a, b)",
    "SELECT count(DISTINCT tool_name), uniqCombinedIf(tool_name, status = 'error'), anyLast(status) FROM tool_metrics",
    "SELECT sumMap(buckets) FROM tool_latency_15m",
    "SELECT argMaxMerge(example) FROM tool_error_types_15m",
    "SELECT row_number() OVER (ORDER BY recorded_at), lagInFrame(status) OVER () FROM tool_metrics",
    "SELECT grouping(tool_name), count() FROM tool_metrics GROUP BY ROLLUP (tool_name)",
    "SELECT EXISTS (SELECT 1), 1 = ANY (SELECT 1), untuple((1, 2)), CAST('1' AS UInt8), '2'::UInt8",
    "SELECT now() - INTERVAL 1 DAY, date_trunc('day', now()), EXTRACT(DAY FROM now()), TRIM(' a '), 1 ? 2 : 3",
    "SELECT t.number AS `in percent / of all` FROM numbers(2) AS t ORDER BY `in percent / of all`",
    "SELECT table_name FROM information_schema.tables",
    "SELECT number FROM numbers(3) ORDER BY number WITH FILL TO 9 INTERPOLATE",
    "SELECT number FROM numbers(3) WHERE number NOT IN (SELECT 1) LIMIT 1 BY number",
    "SELECT status FROM tool_metrics PREWHERE status != '' QUALIFY count() OVER () > 0",
    "SELECT name FROM system.tables AS t WHERE t.database = currentDatabase()",
    "DESCRIBE TABLE tool_stats_1h",
    "EXISTS TABLE tool_metrics",
]


@pytest.fixture
def sql(store) -> ReadOnlySql:
    return ReadOnlySql(store.connect, embedded=True, max_rows=100, max_seconds=5)


@table("attempt", ATTEMPTS)
def test_a_name_that_is_not_allowed_is_refused_wherever_it_stands(sql, world, attempt):
    with pytest.raises(SqlRefusedError) as caught:
        sql.run(world.filled(attempt))
    assert SECRET not in str(caught.value)
    assert world.traces() == []


@table("query", ALLOWED)
def test_query_that_only_reads_and_computes_runs(sql, query):
    assert sql.run(query).columns


async def test_every_column_of_the_store_can_be_read_by_its_name(store, sql):
    rows = await store.query("SELECT table, name FROM system.columns WHERE database = currentDatabase()")
    tables = {name for name, _ in rows.result_rows}
    assert len(tables) > 10
    for its in sorted(tables):
        names = [name for each, name in rows.result_rows if each == its]
        read = sql.run(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM {its} LIMIT 0")
        assert [column["name"] for column in read.columns] == names
