"""Handle ``POST /v1/sql``: a read-only query."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import BadRequestError, BusyError, json_answer
from switchgear_api.parameters import Parameters, json_body, query
from switchgear_api.readonly import ReadOnlySql
from switchgear_api.readonly.access import sql_access
from switchgear_api.readonly.runner import CSV
from switchgear_api.rights import Rights
from switchgear_api.sandbox.process import START_S
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store

log = structlog.get_logger()

AT_ONCE: Final = 2
"""Queries at a time. With the embedded engine, readers share the processors with the sink and must not starve it."""
GRACE_S: Final = START_S + 10.0
"""Seconds beyond the limit of a query, in which a process for it starts."""
_FILES: Final = {
    "csv": (CSV, "text/csv; charset=utf-8"),
    "parquet": ("Parquet", "application/vnd.apache.parquet"),
}
"""ClickHouse's format and the media type of a download."""
_SAMPLE: Final = 'Send {"query": "SELECT count() FROM tool_metrics"} as application/json.'


class SqlBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of the request."""

    query: str


class SqlRoute(Handlers):
    """The handler. At most :data:`AT_ONCE` queries run. Others wait for as long as a query may take."""

    def __init__(self, store: Store, settings: Settings) -> None:
        access = sql_access(store, settings)
        log.info("readers' SQL", walls=access.walls)
        self._sql = ReadOnlySql(
            access.connect,
            embedded=store.embedded,
            max_rows=settings.sql_max_rows,
            max_seconds=settings.sql_max_seconds,
        )
        self._wait_s = settings.sql_max_seconds
        self._answer_s = settings.sql_max_seconds + GRACE_S  # the engine's own limits end a query earlier
        self._running = asyncio.Semaphore(AT_ONCE)

    @route("POST", "/v1/sql", Role.READ, query("format"), body=SqlBody)
    async def __call__(self, request: Request) -> Response:
        """Run a read-only query.

        The answer is ``{columns: [{name, type}], rows, row_count, truncated, elapsed_s}``, or with ``?format=csv|parquet`` a file.
        """
        fmt = Parameters.of(request).text("format") or "json"
        if fmt not in ("json", *_FILES):
            raise BadRequestError(f"format must be json, csv or parquet, got {fmt[:40]!r}.")
        Rights.of(request).check_unrestricted("SQL, which reaches every row,")
        body = await json_body(request, SqlBody, _SAMPLE)
        try:
            async with asyncio.timeout(self._wait_s):
                await self._running.acquire()
        except TimeoutError:
            raise BusyError("Too many queries are running.", hint="Try again in a few seconds.") from None
        work = asyncio.ensure_future(asyncio.to_thread(self._answer, body.query, fmt))
        work.add_done_callback(self._done)
        queries = 1 if fmt == "json" else 2  # the second one counts the rows
        async with asyncio.timeout(queries * self._answer_s):
            return await asyncio.shield(work)

    def _answer(self, query: str, fmt: str) -> Response:
        if fmt in _FILES:
            name, media_type = _FILES[fmt]
            file, truncated = self._sql.export(query, name)
            headers = {"content-disposition": f'attachment; filename="query.{fmt}"'}
            headers |= {"x-switchgear-truncated": "true"} if truncated else {}
            return Response(file, media_type=media_type, headers=headers)
        return json_answer(self._sql.run(query).to_dict())  # in the thread, because an answer may have 64 MiB

    def _done(self, work: asyncio.Future[Response]) -> None:
        """Let the next query run when the thread is free, even if the client has left."""
        self._running.release()
        if not work.cancelled():
            work.exception()
