"""What a query may cost: its time and memory are bounded whatever the engine does, and the sink goes on meanwhile.

The queries come to the process as they are, without the engine's own limits: what is left is the second wall's.
"""

import asyncio
import contextlib
import threading
import time

import psutil
import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_api.readonly import ReadOnlySql, SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_api.sandbox.process import ReaderEndedError, ReaderLimitError, ReaderLimits
from switchgear_api.sandbox.readers import Readers
from tests.support.deep import some
from tests.support.engine import call, store_calls
from tests.support.limits import ANSWER_S, FACTOR

SECONDS, LATER_S = 1.0 * FACTOR, 6.0 * FACTOR  # the machine of the tests has other work
BOMBS = {
    "edit distance": "SELECT sum(editDistance(repeat(toString(number), 6000), repeat('b', 60000))) FROM numbers(200)",
    "edit distance of one row": "SELECT arraySum(arrayMap(x -> editDistance(repeat('a', 60000), repeat('b', 60000)), range(100)))",
    "damerau levenshtein": "SELECT sum(damerauLevenshteinDistance(repeat('ab', 2500), repeat('ba', 2500 + number % 5))) FROM numbers(1000)",
    "jaro winkler": "SELECT sum(jaroWinklerSimilarity(repeat('ab', 15000), repeat('ba', 15000 + number % 5))) FROM numbers(1000)",
    "array fold": "SELECT arrayFold((acc, x) -> concat(acc, 'x'), range(1000000), '')",
    "array fold of arrays": "SELECT length(arrayFold((acc, x) -> arrayPushBack(acc, x), range(200000), emptyArrayUInt64()))",
    "wide joins": "SELECT count() FROM numbers(3000) a, numbers(3000) b, numbers(3000) c WHERE a.number + b.number * c.number = 7",
    "a wide row": "SELECT " + ", ".join(f"repeat('x', 1000000) || toString(number + {n}) AS c{n}" for n in range(500)) + " FROM numbers(10)",
    "many joins": "SELECT count() FROM numbers(10) t0 " + " ".join(f"JOIN numbers(10) t{n} ON t{n}.number >= t{n - 1}.number" for n in range(1, 30)),
    "sleep": "SELECT sleepEachRow(1) FROM numbers(100) SETTINGS function_sleep_max_microseconds_per_block = 0, max_block_size = 1",
    "endless numbers": "SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))",
    "recursion": "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT count() FROM x SETTINGS max_recursive_cte_evaluation_depth = 0",
    "nested brackets": f"SELECT {'(' * 90_000}1{')' * 90_000} SETTINGS max_parser_depth = 0, max_parser_backtracks = 0",
    "nested arrays": f"SELECT {'[' * 20_000}1{']' * 20_000} SETTINGS max_parser_depth = 0",
    "brackets in a text": "SELECT formatQuery(concat('SELECT ', repeat('(', 1000000), '1')) SETTINGS max_parser_depth = 0, max_query_size = 0",
    "nested subqueries": "SELECT * FROM (" * 400 + "SELECT 1" + ")" * 400,
    "nested functions": f"SELECT {'sin(' * 900}1{')' * 900}",
    "a long sum": "SELECT " + " + ".join(f"(number * {n})" for n in range(8000)) + " FROM numbers(100)",
    "a long IN": f"SELECT 1 IN ({', '.join(map(str, range(30_000)))})",
    "a long array": f"SELECT length([{', '.join(map(str, range(30_000)))}])",
    "many aliases": "SELECT 1 AS a0, " + ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(24)),
    "many with": "WITH " + ", ".join(f"x{n} AS (SELECT * FROM {'numbers(2)' if n == 0 else f'x{n - 1} a, x{n - 1} b'})" for n in range(12)) + " SELECT count() FROM x11",
    "an expression that backtracks": "SELECT match(repeat('a', 1000000), '(a*)*(a*)*(a*)*b') FROM numbers(1000)",
    "a long constant": "SELECT length(repeat(repeat('x', 1000000), 1000))",
    "a big array": "SELECT length(range(4000000000)) SETTINGS function_range_max_elements_in_block = 0",
    "memory of a group": "SELECT groupArray(number) FROM numbers(10000000000)",
    "memory of an order": "SELECT repeat(toString(number), 1000000) AS a FROM numbers(10000) ORDER BY a",
    "memory of a join": "SELECT count() FROM numbers(1000000000) a JOIN numbers(1000000000) b ON a.number = b.number",
    "memory of random rows": "SELECT * FROM generateRandom('a Array(Array(String))', 1, 100000, 1000) LIMIT 10",
    "a large answer": "SELECT repeat('x', 1000000) FROM numbers(1000)",
    "a full disk": "CREATE TABLE full (a String) ENGINE = MergeTree ORDER BY tuple() SETTINGS min_bytes_for_wide_part = 0 AS SELECT randomString(1000000) AS a FROM numbers(100000)",
    "a spill": "SELECT count() FROM (SELECT number, randomString(100) AS r FROM numbers(50000000) ORDER BY r LIMIT 40000000, 1) SETTINGS max_bytes_before_external_sort = 10000000, max_bytes_ratio_before_external_sort = 0",
}  # fmt: skip


@pytest.fixture(scope="module")
def quick(engine):
    owner = Readers(engine.folder, engine.database, max_seconds=SECONDS)
    yield owner
    owner.close()


def read_catalog(sql: ReadOnlySql) -> None:
    """Let the gate read what functions and tables there are. A busy machine needs longer than the limit of these queries."""
    for _ in range(20):
        with contextlib.suppress(SqlLimitError):
            sql.run("SELECT 1")
            return
    sql.run("SELECT 1")


@pytest.mark.parametrize("name", some(BOMBS, 2))
def test_a_query_ends_within_its_time_and_the_process_of_the_sink_does_not_grow(quick, name):
    client = quick.connect()
    me = psutil.Process()
    before, started = me.memory_info().rss, time.monotonic()
    try:
        client.raw_query(BOMBS[name], fmt="JSONCompact")
    except (ClickHouseError, ReaderLimitError, ReaderEndedError):
        pass
    finally:
        took = time.monotonic() - started
        client.close()
    assert took < SECONDS + LATER_S
    assert me.memory_info().rss - before < 300_000_000
    assert not psutil.pid_exists(client.pid)


@pytest.mark.parametrize(
    "name",
    some(
        [
            "edit distance of one row", "array fold", "many joins", "nested subqueries", "nested functions", "a long sum", "a long IN",
            "many aliases", "many with", "a long constant", "memory of a group",
        ],
        1,
    ),
)  # fmt: skip
def test_query_through_the_gate_keeps_its_limits(quick, name):
    """Also what the check of the text asks of the engine: to parse, to plan, and to compute constants."""
    sql = ReadOnlySql(quick.connect, embedded=True, max_rows=100, max_seconds=SECONDS)
    read_catalog(sql)
    started = time.monotonic()
    try:
        sql.run(BOMBS[name])
    except (SqlLimitError, SqlFailedError, SqlRefusedError) as error:
        assert error.message
    assert time.monotonic() - started < SECONDS + 2 * LATER_S, "the start of a process is part of it"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("limits", "query", "word"),
    [
        (ReaderLimits(memory_bytes=600_000_000), BOMBS["memory of a group"], "memory"),
        (ReaderLimits(written_bytes=50_000_000), BOMBS["a full disk"], "writes"),
        (ReaderLimits(answer_bytes=1_000_000), "SELECT repeat('x', 1000000) FROM numbers(20)", "answer"),
    ],
)
def test_error_of_a_limited_process_names_the_limit(engine, limits, query, word):
    readers = Readers(engine.folder, engine.database, max_seconds=60, limits=limits)
    client = readers.connect()
    try:
        with pytest.raises((ReaderLimitError, ReaderEndedError, ClickHouseError)) as caught:
            client.raw_query(query)
    finally:
        client.close()
        readers.close()
    if not isinstance(caught.value, ClickHouseError):
        assert word in str(caught.value)


@pytest.mark.deep
def test_sink_stores_rows_while_two_queries_use_all_they_can(engine):
    readers = Readers(engine.folder, engine.database, max_seconds=60)
    clients = [readers.connect(), readers.connect()]
    ended = []

    def ask(client) -> None:
        try:
            client.raw_query(BOMBS["endless numbers"])
        except Exception as error:  # noqa: BLE001 - it is ended below
            ended.append(error)
        client.close()

    asking = [threading.Thread(target=ask, args=(client,)) for client in clients]
    for each in asking:
        each.start()
    took = []
    for _ in range(10):
        started = time.monotonic()
        asyncio.run(store_calls(engine, [call("t")] * 1000))
        took.append(time.monotonic() - started)
    assert not ended, "both run"
    readers.close()
    for each in asking:
        each.join(ANSWER_S)
    assert sorted(took)[5] < 5, took
