"""Any clickhouse-connect client, or our Store, behind the three things the repository needs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

ANSWER_LIMIT_S: Final = 60.0
"""A read that takes longer raises TimeoutError: whoever asked for a report has gone by then."""
MUTATION_LIMIT_S: Final = 3600.0


class DatabaseClient(Protocol):
    """A ``clickhouse_connect`` client, sync or async, over HTTP or chDB; or a ``switchgear_sinks.store.Store``."""

    def query(self, query: str, parameters: Any = None) -> Any:
        """Run a SELECT; ``parameters`` fill ``{name:Type}`` in it, on the server."""

    def command(self, cmd: str, parameters: Any = None) -> Any:
        """Run a statement without a result set."""


class Database:
    """Awaitable reads and writes over a client of either kind.

    A sync client runs in a thread, one statement at a time: an HTTP client has one session, chDB one connection.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._turn = asyncio.Lock()

    async def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """All rows of a SELECT, by column name; naive times are UTC.

        Raises:
            TimeoutError: after :data:`ANSWER_LIMIT_S`.
        """
        result = await self._call("query", ANSWER_LIMIT_S, sql, parameters=dict(parameters or {}))
        names = result.column_names
        return [{name: _aware(value) for name, value in zip(names, row, strict=True)} for row in result.result_rows]

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement and wait until it has been done.

        Raises:
            TimeoutError: after :data:`MUTATION_LIMIT_S`.
        """
        await self._call("command", MUTATION_LIMIT_S, sql, parameters=dict(parameters or {}))

    async def insert_json(self, table: str, block: bytes) -> None:
        """Insert JSON lines."""
        settings = {
            "date_time_input_format": "best_effort",
            "input_format_skip_unknown_fields": 1,
            "insert_deduplicate": 0,
        }
        # by position: a client names the second argument column_names, the Store does not have it
        if "column_names" in inspect.signature(self.client.raw_insert).parameters:
            await self._call("raw_insert", ANSWER_LIMIT_S, table, None, block, settings, "JSONEachRow")
        else:
            await self._call("raw_insert", ANSWER_LIMIT_S, table, block, fmt="JSONEachRow", settings=settings)

    async def _call(self, method: str, limit_s: float, *args: Any, **kwargs: Any) -> Any:
        bound = getattr(self.client, method)
        if inspect.iscoroutinefunction(bound):
            return await asyncio.wait_for(bound(*args, **kwargs), limit_s)
        async with self._turn:
            return await asyncio.wait_for(asyncio.to_thread(bound, *args, **kwargs), limit_s)


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
