"""OTLP over HTTP: handlers for ``POST /v1/traces`` and ``POST /v1/logs``."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from switchgear_gateway.otlp.decoding import (
    MAX_BODY_BYTES,
    BodyTooLargeError,
    Encoding,
    UnreadableBodyError,
    logs_from,
    traces_from,
    unpacked,
)
from switchgear_gateway.otlp.ingest import Answer, Ingest
from switchgear_gateway.otlp.submission import NotAllowedError, Sender, SenderOf, TryAgainError
from switchgear_schemas.errors import SwitchgearError

R = TypeVar("R", bound=Message)

_BODY_LIMIT_S: Final = 30.0
"""How long a client may take to send a body."""
_LARGE: Final = 262_144
"""Bytes from which a body is decoded in a thread, so that other requests go on."""
_TYPES: Final[dict[str, Encoding]] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_TITLES: Final = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    408: "Request too slow",
    413: "Body too large",
    415: "Unsupported media type",
    503: "Try again",
}


class _RefusedError(SwitchgearError):
    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class OtlpReceiver:
    """The handlers. Add :meth:`traces` and :meth:`logs` to an application as routes for POST.

    An answer has the format of its request: protobuf or JSON. Errors are problem details (RFC 9457). Exporters send a request again
    after 429, 502, 503 and 504 only, so 503 means that some executions were not acknowledged.

    Args:
        ingest: What takes the spans and records.
        sender_of: Returns who sent a request.
        max_body_bytes: The largest body, as it is sent.
    """

    def __init__(self, ingest: Ingest, sender_of: SenderOf, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._ingest = ingest
        self._sender_of = sender_of
        self._max_body_bytes = max_body_bytes

    async def traces(self, request: Request) -> Response:
        """Take an ``ExportTraceServiceRequest``."""
        return await self._answered(request, traces_from, self._ingest.traces, _trace_response)

    async def logs(self, request: Request) -> Response:
        """Take an ``ExportLogsServiceRequest``."""
        return await self._answered(request, logs_from, self._ingest.logs, _log_response)

    async def _answered(
        self,
        request: Request,
        decode: Callable[[bytes, Encoding], R],
        take: Callable[[R, Sender], Awaitable[Answer]],
        response: Callable[[Answer], Message],
    ) -> Response:
        try:
            sender = await self._sender_of(request.headers)
            encoding = _encoding(request)
            body = await self._body(request)
            answer = await take(
                await _decoded(body, request.headers.get("content-encoding", ""), encoding, decode), sender
            )
        except SwitchgearError as error:
            return _problem(error)
        message = response(answer)
        if encoding == "json":
            return Response(json_format.MessageToJson(message, indent=None), media_type="application/json")
        return Response(message.SerializeToString(), media_type="application/x-protobuf")

    async def _body(self, request: Request) -> bytes:
        found = bytearray()
        try:
            async with asyncio.timeout(_BODY_LIMIT_S):
                async for chunk in request.stream():
                    found += chunk
                    if len(found) > self._max_body_bytes:
                        raise BodyTooLargeError(
                            f"The body has more than {self._max_body_bytes} bytes.", hint="Export fewer spans at once."
                        )
        except TimeoutError:
            raise _RefusedError(408, f"The body was not complete after {_BODY_LIMIT_S:g} s.") from None
        except ClientDisconnect:
            raise _RefusedError(400, "The client closed the connection before the end of the body.") from None
        return bytes(found)


def _encoding(request: Request) -> Encoding:
    given = request.headers.get("content-type", "")
    found = _TYPES.get(given.partition(";")[0].strip().lower())
    if found is None:
        raise _RefusedError(415, f"The content type {given!r:.100} is unknown.", hint=f"Use {' or '.join(_TYPES)}.")
    return found


async def _decoded(body: bytes, content_encoding: str, encoding: Encoding, decode: Callable[[bytes, Encoding], R]) -> R:
    def decoded() -> R:
        return decode(unpacked(body, content_encoding.strip().lower()), encoding)

    small = len(body) < _LARGE and not content_encoding
    return decoded() if small else await asyncio.to_thread(decoded)


def _trace_response(answer: Answer) -> Message:
    found = ExportTraceServiceResponse()
    if answer.rejected:
        found.partial_success.rejected_spans = answer.rejected
        found.partial_success.error_message = answer.reasons
    return found


def _log_response(answer: Answer) -> Message:
    found = ExportLogsServiceResponse()
    if answer.rejected:
        found.partial_success.rejected_log_records = answer.rejected
        found.partial_success.error_message = answer.reasons
    return found


def _problem(error: SwitchgearError) -> Response:
    status, headers = 400, {}
    if isinstance(error, (NotAllowedError, _RefusedError)):
        status = error.status
    elif isinstance(error, BodyTooLargeError):
        status = 413
    elif isinstance(error, TryAgainError):
        status, headers = 503, {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
    elif not isinstance(error, UnreadableBodyError):
        raise error
    if status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    content: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(status, "Refused"),
        "status": status,
        "detail": error.message,
    }
    if error.hint:
        content["hint"] = error.hint
    return JSONResponse(content, status, headers, media_type="application/problem+json")
