"""The gate on the real engine: what it asks, and what it makes of an answer that is not whole."""

import pytest

from switchgear_api.readonly import SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_api.readonly.gate import CATALOG_SECONDS, MAX_TREE_BYTES, Gate

QUERY = "SELECT count() FROM tool_metrics WHERE tool_name = 'a'"


class Engine:
    """Asks the engine, keeps the questions, and may change the trees."""

    def __init__(self, client, change=lambda tree: tree):
        self._client = client
        self._change = change
        self.asked = []

    def __call__(self, text, fmt):
        self.asked.append(text)
        answer = self._client.raw_query(text, fmt=fmt)
        return self._change(answer) if text.startswith("EXPLAIN QUERY TREE") else answer


@pytest.fixture
def client(store):
    found = store.connect()
    yield found
    found.close()


def test_no_part_of_a_query_runs_before_its_names_are_checked(client):
    ask = Engine(client)
    with pytest.raises(SqlRefusedError, match=r"file\(\)"):
        Gate().admit(ask, "SELECT file('/etc/hostname')")
    about_it = [text for text in ask.asked if "/etc/hostname" in text]
    assert [text.split("(")[0] for text in about_it] == [
        "SELECT formatQuerySingleLine",
        "EXPLAIN QUERY TREE run_passes = 0 SELECT * FROM ",
    ]


def test_query_that_runs_is_the_one_that_was_checked(client):
    ask = Engine(client)
    text = Gate().admit(ask, f"{QUERY} -- a comment\n;")
    assert text == QUERY
    assert [text in asked for asked in ask.asked if asked.startswith("EXPLAIN")] == [True, True]


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9])
def test_truncated_syntax_tree_is_refused(client, kept):
    ask = Engine(client, lambda tree: tree[: int(len(tree) * kept)])
    with pytest.raises(SqlRefusedError, match="did not show all"):
        Gate().admit(ask, QUERY)


def test_too_large_syntax_tree_is_a_limit_error(client):
    ask = Engine(client, lambda tree: b" " * MAX_TREE_BYTES + tree)
    with pytest.raises(SqlLimitError, match="too large"):
        Gate().admit(ask, QUERY)


def test_a_query_with_thousands_of_names_is_judged(client):
    names = ", ".join(f"number AS n{place}" for place in range(5_000))
    assert Gate().admit(Engine(client), f"SELECT {names} FROM numbers(1)").startswith("SELECT number AS n0")


@pytest.mark.parametrize("sql", ["SELECT '\0'", "SELECT '\ud800'", "SELECT 1\0; DROP TABLE tool_metrics"])
def test_characters_that_are_not_text_never_reach_the_engine(client, sql):
    ask = Engine(client)
    with pytest.raises(SqlFailedError, match="not text"):
        Gate().admit(ask, sql)
    assert ask.asked == []


@pytest.mark.parametrize(
    "text", ["it's", "a\\", "\\'", "'); DROP TABLE tool_metrics; --", "\u2028", "\t\n\r", "ü\U0001f600"]
)
def test_text_comes_through_the_gate_as_it_was_sent(client, text):
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    admitted = Gate().admit(Engine(client), f"SELECT '{quoted}' AS text")
    assert client.raw_query(admitted, fmt="RawBLOB").decode() == text


def test_catalog_of_the_engine_is_read_once_per_minute(client):
    now = [0.0]
    gate, ask = Gate(lambda: now[0]), Engine(client)
    counts = []
    for at in (0.0, CATALOG_SECONDS, CATALOG_SECONDS + 1):
        now[0] = at
        gate.admit(ask, QUERY)
        counts.append(sum("system.functions" in text for text in ask.asked))
    assert counts == [1, 1, 2]


def test_a_database_that_opens_files_by_name_is_not_open_to_queries(client):
    client.command("USE default")
    with pytest.raises(SqlRefusedError, match="SWITCHGEAR_CLICKHOUSE_URL"):
        Gate().admit(Engine(client), "SELECT * FROM `secret.csv`")
