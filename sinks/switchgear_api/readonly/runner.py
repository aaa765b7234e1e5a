"""Run a reader's query, within limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
from clickhouse_connect.driver.exceptions import ClickHouseError

from switchgear_api.readonly.errors import SqlFailedError, SqlLimitError, SqlRefusedError, explain
from switchgear_api.readonly.formulas import without_formulas
from switchgear_api.readonly.gate import Ask, Gate
from switchgear_api.sandbox.process import ReaderEndedError, ReaderLimitError, SnapshotError

MAX_QUERY_CHARACTERS: Final = 200_000
MAX_QUERY_BYTES: Final = 10 * MAX_QUERY_CHARACTERS
"""Size of what is sent to ClickHouse: a character has at most four bytes, and the gate escapes it."""
MAX_MEMORY_BYTES: Final = 1_000_000_000
MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
CSV: Final = "CSVWithNames"


class ReadingClient(Protocol):
    """The part of a clickhouse-connect client that is used."""

    def raw_query(
        self, query: str, parameters: Any = None, settings: dict[str, Any] | None = None, fmt: str | None = None
    ) -> bytes:
        """Run a query and return the answer in ``fmt``."""

    def command(self, cmd: str) -> object:
        """Run a statement."""

    def close(self) -> None:
        """Close the connection."""


class _Column(msgspec.Struct):
    name: str
    type: str


class _Document(msgspec.Struct):
    """The part of ``JSONCompact`` that is used."""

    meta: list[_Column] = []
    data: list[msgspec.Raw] = []


_decode: Final = msgspec.json.Decoder(_Document).decode


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The rows of a query as JSON values. 64-bit integers are numbers, dates are text."""

    columns: list[dict[str, str]]
    raw_rows: list[msgspec.Raw]
    """Each row as a JSON array that is not decoded, because an answer may have many megabytes."""
    truncated: bool
    """There were more rows than the limit."""
    elapsed_s: float

    @property
    def rows(self) -> list[list[Any]]:
        """The rows, decoded."""
        return [msgspec.json.decode(row) for row in self.raw_rows]

    def to_dict(self) -> dict[str, Any]:
        """Return the HTTP answer."""
        return {
            "columns": self.columns,
            "rows": self.raw_rows,
            "row_count": len(self.raw_rows),
            "truncated": self.truncated,
            "elapsed_s": round(self.elapsed_s, 4),
        }


class ReadOnlySql:
    """Runs queries, each on its own connection.

    There are two reasons for a connection per query. ``readonly = 1`` can't be undone within a session. And when a query fails
    during its answer, chDB 26.9 puts the partial output in front of the next answer of the same connection.

    Args:
        connect: Opens a client with the store's database selected.
        embedded: The client belongs to the embedded engine, whose settings are those of the session, not of a request.
        max_rows: Maximum rows of an answer. A longer answer is cut, and ``truncated`` is set.
        max_seconds: ClickHouse stops a query after this time.
    """

    def __init__(
        self, connect: Callable[[], ReadingClient], *, embedded: bool, max_rows: int, max_seconds: float
    ) -> None:
        self._connect = connect
        self._embedded = embedded
        self._max_rows = max_rows
        self._limits: dict[str, Any] = {
            "max_execution_time": max_seconds,
            "max_query_size": MAX_QUERY_BYTES,
            "enable_analyzer": 1,  # the query that was checked is the one that runs
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
        }
        if embedded:  # the reader's user of a server has its own
            self._limits["readonly"] = 1  # last, because no setting can be changed after it
        self._gate = Gate()

    def run(self, sql: str) -> SqlResult:
        """Run one query.

        Raises:
            SqlRefusedError: It does something other than reading the store.
            SqlFailedError: ClickHouse can't run it.
            SqlLimitError: It exceeds the limits.
            StoreUnavailableError: No query can run at the moment.
        """
        started = time.monotonic()
        payload = self._payload(sql, "JSONCompact", self._max_rows + 1)
        document = _decode(payload) if payload.strip() else _Document()
        return SqlResult(
            columns=[{"name": column.name, "type": column.type} for column in document.meta],
            raw_rows=document.data[: self._max_rows],
            truncated=len(document.data) > self._max_rows,
            elapsed_s=time.monotonic() - started,
        )

    def export(self, sql: str, fmt: str) -> tuple[bytes, bool]:
        """Run one query. Return its first rows, as many as an answer may have, as a file, and whether there are more.

        Args:
            sql: The query.
            fmt: A format of ClickHouse, such as ``CSVWithNames`` or ``Parquet``.

        Raises:
            SwitchgearError: As for :meth:`run`.
        """
        file = self._payload(sql, fmt, self._max_rows)
        few = fmt == CSV and file.count(b"\n") <= self._max_rows  # one line is the names
        return without_formulas(file) if fmt == CSV else file, not few and self._has_more(sql)

    def _has_more(self, sql: str) -> bool:
        """Return whether a query has more rows than an answer may have. A file doesn't say where it was cut."""
        inner = sql.strip().removesuffix(";")
        counted = f"SELECT count() FROM (SELECT 1 FROM ({inner}\n) LIMIT {self._max_rows + 1})"  # noqa: S608 - it is checked
        try:
            return int(self._payload(counted, "TabSeparated", 1)) > self._max_rows
        except (SqlFailedError, SqlRefusedError):
            return False  # no SELECT: EXPLAIN and its like
        except SqlLimitError:
            return True  # perhaps

    def _payload(self, sql: str, fmt: str, limit: int) -> bytes:
        if not sql.strip():
            raise SqlFailedError("The query is empty.", hint='Try: switchgear sql "SELECT count() FROM tool_metrics".')
        if len(sql) > MAX_QUERY_CHARACTERS:
            raise SqlFailedError(f"The query has {len(sql)} characters; at most {MAX_QUERY_CHARACTERS} are allowed.")
        try:
            return self._payload_of_one_client(sql, fmt, limit)
        except SnapshotError:
            return self._payload_of_one_client(sql, fmt, limit)  # of another snapshot

    def _payload_of_one_client(self, sql: str, fmt: str, limit: int) -> bytes:
        client = self._connect()
        try:
            ask = self._limited(client, limit)
            return self._answer(ask, self._gate.admit(ask, sql), fmt)
        except ReaderLimitError as error:
            raise SqlLimitError(error.message, hint=error.hint) from None
        except ReaderEndedError as error:
            raise SqlFailedError(error.message, hint=error.hint) from None
        finally:
            client.close()

    def _limited(self, client: ReadingClient, limit: int) -> Ask:
        """Return a function that runs the client's queries under the limits. The gate uses it too."""
        if not self._embedded:
            settings = {**self._limits, "limit": limit, "wait_end_of_query": 1}
            return lambda text, fmt: client.raw_query(text, settings=settings, fmt=fmt)
        client.command(
            "SET " + ", ".join(f"{name} = '{value}'" for name, value in ({"limit": limit} | self._limits).items())
        )
        return lambda text, fmt: client.raw_query(text, fmt=fmt)

    @staticmethod
    def _answer(ask: Ask, text: str, fmt: str) -> bytes:
        try:
            return ask(text, fmt)
        except ClickHouseError as error:
            raise explain(error, parsing=False) from None
