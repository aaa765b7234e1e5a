"""``POST /v1/sql``: a query of somebody who may only read."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from switchgear_schemas.settings import Settings
from switchgear_sinks.api.answers import BadRequestError, BusyError, json_answer
from switchgear_sinks.api.readonly import ReadOnlySql
from switchgear_sinks.store import Store

MAX_BODY_BYTES: Final = 1_000_000
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
        body = await _body(request)
        try:
            await asyncio.wait_for(self._turn.acquire(), self._wait_s)
        except TimeoutError:
            raise BusyError("Too many queries run at the moment.", hint="Try again in a few seconds.") from None
        try:
            result = await asyncio.wait_for(asyncio.to_thread(self._sql.run, body.query), self._answer_s)
        finally:
            self._turn.release()
        return json_answer(result.to_dict())


async def _body(request: Request) -> SqlBody:
    # a browser asks before it sends this type to another site: a web page cannot query a local Switchgear
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequestError("The content type must be application/json.", hint=_SAMPLE)
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise BadRequestError(f"The body is larger than {MAX_BODY_BYTES} bytes.")
    try:
        return msgspec.json.decode(content, type=SqlBody)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"The body is not as expected: {error}.", hint=_SAMPLE) from None
