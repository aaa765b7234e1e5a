"""Run a query of somebody who may only read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_sinks.api.readonly import rules
from switchgear_sinks.api.readonly.failures import SqlFailedError, SqlRefusedError, explain
from switchgear_sinks.api.readonly.statement import Statement, classify
from switchgear_sinks.api.readonly.syntax import UnreadableTreeError, parse_tree
from switchgear_sinks.repository.faults import clickhouse_code

MAX_QUERY_CHARACTERS: Final = 200_000
MAX_MEMORY_BYTES: Final = 1_000_000_000
MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
CATALOG_SECONDS: Final = 60.0


class ReadingClient(Protocol):
    """What is used of a clickhouse-connect client."""

    def raw_query(
        self, query: str, parameters: Any = None, settings: dict[str, Any] | None = None, fmt: str | None = None
    ) -> bytes:
        """Answer in ``fmt``."""

    def command(self, cmd: str) -> object:
        """Run a statement."""

    def close(self) -> None:
        """Let the connection go."""


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows of a query, as JSON values; 64-bit integers are numbers, dates text."""

    columns: list[dict[str, str]]
    rows: list[list[Any]]
    truncated: bool
    """There were more rows than the limit."""
    elapsed_s: float

    def to_dict(self) -> dict[str, Any]:
        """The shape of the HTTP answer."""
        return {
            "columns": self.columns,
            "rows": self.rows,
            "row_count": len(self.rows),
            "truncated": self.truncated,
            "elapsed_s": round(self.elapsed_s, 4),
        }


class ReadOnlySql:
    """Runs queries, each on a connection of its own.

    A connection of its own, because the embedded engine gives the partial output of a query that failed while it
    answered to the next query of the same connection (measured, chdb 26.9), and because ``readonly = 1`` cannot be
    taken back within a session.

    Args:
        connect: Opens a client on the store; its session's database is the store's.
        embedded: The client is the engine in the process, whose settings belong to the session, not to the request.
        max_rows: Rows of an answer at most; what is above is cut, and told.
        max_seconds: ClickHouse stops a query after this.
    """

    def __init__(
        self, connect: Callable[[], ReadingClient], *, embedded: bool, max_rows: int, max_seconds: float
    ) -> None:
        self._connect = connect
        self._embedded = embedded
        self._max_rows = max_rows
        self._limits: dict[str, Any] = {
            "limit": max_rows + 1,
            "max_execution_time": max_seconds,
            "timeout_overflow_mode": "throw",
            "max_result_rows": 0,
            "max_result_bytes": MAX_RESULT_BYTES,
            "result_overflow_mode": "throw",
            "max_memory_usage": MAX_MEMORY_BYTES,
            "max_temporary_data_on_disk_size_for_query": MAX_MEMORY_BYTES,
            "allow_ddl": 0,
            "allow_introspection_functions": 0,
            "output_format_json_quote_64bit_integers": 0,
            "output_format_json_quote_denormals": 1,
            "output_format_json_named_tuples_as_objects": 1,
            "readonly": 1,  # last: after it no setting can be changed
        }
        self._catalog: rules.Catalog | None = None
        self._catalog_at = 0.0

    def run(self, sql: str) -> SqlResult:
        """Answer one query.

        Raises:
            SqlRefusedError: It does something other than read the store.
            SqlFailedError: ClickHouse cannot run it.
            SqlLimitError: It ran into the limits.
        """
        started = time.monotonic()
        if not sql.strip():
            raise SqlFailedError("The query is empty.", hint='Try: switchgear sql "SELECT count() FROM tool_metrics".')
        if len(sql) > MAX_QUERY_CHARACTERS:
            raise SqlFailedError(f"The query has {len(sql)} characters; at most {MAX_QUERY_CHARACTERS} are allowed.")
        client = self._connect()
        try:
            statement = self._admit(client, sql)
            payload = self._answer(client, statement.text)
        finally:
            client.close()
        document = json.loads(payload.decode("utf-8", "replace")) if payload.strip() else {"meta": [], "data": []}
        rows: list[list[Any]] = document["data"]
        return SqlResult(
            columns=[{"name": column["name"], "type": column["type"]} for column in document["meta"]],
            rows=rows[: self._max_rows],
            truncated=len(rows) > self._max_rows,
            elapsed_s=time.monotonic() - started,
        )

    def _admit(self, client: ReadingClient, sql: str) -> Statement:
        """Let ClickHouse parse it (one statement, or an error), then judge the syntax tree."""
        try:
            formatted = client.raw_query(
                "SELECT formatQuerySingleLine({query:String})", parameters={"query": sql}, fmt="RawBLOB"
            )
        except ClickHouseError as error:
            raise explain(error, parsing=True) from None
        canonical = formatted.decode("utf-8", "replace").strip()
        statement = classify(canonical)
        if statement is None:
            raise SqlRefusedError(
                "Only reading is allowed here.", hint="Send one SELECT, EXPLAIN SELECT, SHOW TABLES or DESCRIBE TABLE."
            )
        catalog = self._known(client)
        problem = None if statement.table is None else rules.table_violation(statement.table, catalog)
        if statement.select is not None:
            problem = self._judge(client, statement.select, catalog)
        if problem is not None:
            raise SqlRefusedError(problem, hint="Read the store's own tables; SHOW TABLES lists them.")
        return statement

    def _judge(self, client: ReadingClient, select: str, catalog: rules.Catalog) -> str | None:
        # The text comes from ClickHouse's formatter and is only parsed. In brackets, the grammar knows neither INTO OUTFILE nor FORMAT: with them, EXPLAIN itself would write the file.
        try:
            text = client.raw_query(f"EXPLAIN AST SELECT * FROM ({select})", fmt="TabSeparatedRaw")  # noqa: S608 - parsed, not run
        except ClickHouseError as error:
            if clickhouse_code(error) == 62:
                return "Only a plain SELECT may run here, without INTO OUTFILE, FORMAT or SETTINGS after it."
            raise explain(error, parsing=True) from None
        try:
            return rules.violation(parse_tree(text.decode("utf-8", "replace")), catalog)
        except UnreadableTreeError:
            return "This query cannot be checked: use plain names, without line breaks in them."

    def _known(self, client: ReadingClient) -> rules.Catalog:
        now = time.monotonic()
        if self._catalog is None or now - self._catalog_at > CATALOG_SECONDS:
            functions = _rows(
                client, "SELECT name, alias_to, categories, origin FROM system.functions WHERE NOT is_aggregate"
            )
            tables = _rows(client, "SELECT name FROM system.table_functions")
            database = _rows(client, "SELECT currentDatabase()")[0][0]
            self._catalog = rules.Catalog(
                refused_functions=rules.refused_functions([(row[0], row[1], row[2], row[3]) for row in functions]),
                table_functions=frozenset(row[0].lower() for row in tables),
                database=database,
            )
            self._catalog_at = now
        return self._catalog

    def _answer(self, client: ReadingClient, text: str) -> bytes:
        try:
            if not self._embedded:
                return client.raw_query(text, settings={**self._limits, "wait_end_of_query": 1}, fmt="JSONCompact")
            for name, value in self._limits.items():
                client.command(f"SET {name} = '{value}'")
            return client.raw_query(text, fmt="JSONCompact")
        except ClickHouseError as error:
            raise explain(error, parsing=False) from None


def _rows(client: ReadingClient, query: str) -> list[list[str]]:
    lines = client.raw_query(query, fmt="JSONCompactEachRow").decode().splitlines()
    return [json.loads(line) for line in lines]
