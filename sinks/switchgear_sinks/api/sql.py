"""``POST /v1/sql``: a query of somebody who may only read."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from switchgear_schemas.settings import Settings
from switchgear_sinks.api.answers import BusyError, json_answer
from switchgear_sinks.api.parameters import json_body
from switchgear_sinks.api.readonly import ReadOnlySql
from switchgear_sinks.store import Store

AT_ONCE: Final = 2
"""Queries at a time: whoever explores must not starve the sink, which has the same processors in the embedded engine."""
GRACE_S: Final = 30.0
_SAMPLE: Final = 'Send {"query": "SELECT count() FROM tool_metrics"} as application/json.'


class SqlBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is sent."""

    query: str


class SqlRoute:
    """The handler; at most :data:`AT_ONCE` queries run, others wait for as long as a query may take."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._sql = ReadOnlySql(
            store.connect,
            embedded=store.embedded,
            max_rows=settings.sql_max_rows,
            max_seconds=settings.sql_max_seconds,
        )
        self._wait_s = settings.sql_max_seconds
        self._answer_s = (
            settings.sql_max_seconds + GRACE_S
        )  # ClickHouse stops the query itself: this is for a dead server
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, request: Request) -> Response:
        """Answer ``{columns: [{name, type}], rows, row_count, truncated, elapsed_s}``."""
        body = await json_body(request, SqlBody, _SAMPLE)
        try:
            await asyncio.wait_for(self._turn.acquire(), self._wait_s)
        except TimeoutError:
            raise BusyError("Too many queries run at the moment.", hint="Try again in a few seconds.") from None
        try:
            result = await asyncio.wait_for(asyncio.to_thread(self._sql.run, body.query), self._answer_s)
        finally:
            self._turn.release()
        return json_answer(result.to_dict())
