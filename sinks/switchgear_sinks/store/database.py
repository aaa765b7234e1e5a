"""One asynchronous interface to every kind of ClickHouse client."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

ANSWER_LIMIT_S: Final = 60.0
MUTATION_LIMIT_S: Final = 3600.0
_INSERT_SETTINGS: Final = {
    "date_time_input_format": "best_effort",
    "input_format_skip_unknown_fields": 1,
    "insert_deduplicate": 0,
}


class Connection(Protocol):
    """Runs statements in the selected database. :class:`Database` and :class:`~switchgear_sinks.store.Store` are two."""

    embedded: bool
    """ClickHouse runs inside this process, so no other process uses its data."""

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run a SELECT. ClickHouse fills ``{name:Type}`` with ``parameters``."""

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run a statement without a result set."""


class Database:
    """Asynchronous reads and writes over a client that you bring.

    A synchronous client runs in a thread, one statement at a time: an HTTP client has one session, chDB one connection.

    Args:
        client: A clickhouse-connect client (synchronous or asynchronous, HTTP or chDB) or a
            :class:`~switchgear_sinks.store.Store`, with the database selected.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.embedded: bool = getattr(client, "embedded", False)
        self._turn = asyncio.Lock()

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run a SELECT and return the client's result. ClickHouse fills ``{name:Type}`` with ``parameters``.

        Raises:
            TimeoutError: No answer came within :data:`ANSWER_LIMIT_S`. The caller of a report has gone by then.
        """
        return await self._call("query", ANSWER_LIMIT_S, sql, parameters=dict(parameters or {}))

    async def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return all rows of a SELECT as dictionaries by column name. Times without a zone become UTC.

        Raises:
            TimeoutError: As for :meth:`query`.
        """
        result = await self.query(sql, parameters)
        names = result.column_names
        return [{name: _aware(value) for name, value in zip(names, row, strict=True)} for row in result.result_rows]

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement and wait until it is done.

        Raises:
            TimeoutError: It is not done within :data:`MUTATION_LIMIT_S`.
        """
        await self._call("command", MUTATION_LIMIT_S, sql, parameters=dict(parameters or {}))

    async def insert_json(self, table: str, block: bytes) -> None:
        """Insert lines of JSON."""
        # A client has a second positional argument, column_names; the Store has not.
        if "column_names" in inspect.signature(self.client.raw_insert).parameters:
            await self._call("raw_insert", ANSWER_LIMIT_S, table, None, block, _INSERT_SETTINGS, "JSONEachRow")
        else:
            await self._call("raw_insert", ANSWER_LIMIT_S, table, block, fmt="JSONEachRow", settings=_INSERT_SETTINGS)

    async def _call(self, method: str, limit_s: float, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.client, method)
        if inspect.iscoroutinefunction(bound):
            async with asyncio.timeout(limit_s):
                return await bound(*args, **kwargs)
        async with self._turn, asyncio.timeout(limit_s):
            return await asyncio.to_thread(bound, *args, **kwargs)


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
