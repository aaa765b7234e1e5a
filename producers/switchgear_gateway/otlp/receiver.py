"""OTLP over HTTP: handlers for ``POST /v1/traces`` and ``POST /v1/logs``. Metrics are taken and dropped."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from switchgear_gateway.bodies import Budget, read_body
from switchgear_gateway.otlp.decoding import MAX_BODY_BYTES
from switchgear_gateway.otlp.ingest import Ingest, IngestAnswer, cost_of_calls
from switchgear_gateway.otlp.parts import Encoding, TooManyRecordsError, UnreadableBodyError
from switchgear_gateway.otlp.submission import Sender, TryAgainError
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_http.routing import Handlers, Reply, route
from switchgear_schemas.errors import SwitchgearError

_TYPES: Final[dict[str, Encoding]] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_FORMATS: Final = {
    media: {"schema": {"type": "object" if encoding == "json" else "string"}} for media, encoding in _TYPES.items()
}
_TAKEN: Final = {200: Reply("Taken, perhaps in part.", _FORMATS)}


class OtlpReceiver(Handlers):
    """The handlers.

    An answer has the format of its request: protobuf or JSON. Errors are problem details (RFC 9457). Exporters send a request again
    after 429, 502, 503 and 504 only, so 503 means that some executions were not acknowledged.

    Args:
        ingest: What takes the spans and records.
        sender_of: Returns the sender for a client.
        budget: Bounds the bodies of all requests.
    """

    def __init__(self, ingest: Ingest, sender_of: Callable[[Principal], Sender], *, budget: Budget) -> None:
        self._ingest = ingest
        self._sender_of = sender_of
        self._budget = budget

    @route("POST", "/v1/traces", Role.EMIT, body=_FORMATS, answers=_TAKEN)
    async def traces(self, request: Request) -> Response:
        """Take an OTLP ExportTraceServiceRequest."""
        return await self._answered(request, self._ingest.traces, _trace_response)

    @route("POST", "/v1/logs", Role.EMIT, body=_FORMATS, answers=_TAKEN)
    async def logs(self, request: Request) -> Response:
        """Take an OTLP ExportLogsServiceRequest."""
        return await self._answered(request, self._ingest.logs, _log_response)

    @route("POST", "/v1/metrics", Role.EMIT, body=_FORMATS, answers={200: Reply("Dropped.", _FORMATS)})
    async def metrics(self, request: Request) -> Response:
        """Take an OTLP ExportMetricsServiceRequest, and drop it: many exporters have one address for all signals."""
        encoding = _encoding(request)
        try:
            async for _ in request.stream():
                pass
        except ClientDisconnect:
            raise ProblemError(400, "The connection ended before the end of the body.") from None
        return Response(
            b"{}" if encoding == "json" else b"", media_type=request.headers["content-type"].partition(";")[0]
        )

    async def _answered(
        self,
        request: Request,
        take: Callable[[bytes, Encoding, Sender], Awaitable[IngestAnswer]],
        response: Callable[[IngestAnswer], Message],
    ) -> Response:
        try:
            sender = self._sender_of(principal_of(request.scope))
            encoding = _encoding(request)
            with self._budget.request(sender.client) as held:
                body = await read_body(request, held, limit=MAX_BODY_BYTES)
                held.add(cost_of_calls(body))
                answer = await take(body, encoding, sender)
        except SwitchgearError as error:
            raise _problem(error) from None
        answered = response(answer)
        if encoding == "json":
            return Response(json_format.MessageToJson(answered, indent=None), media_type="application/json")
        return Response(answered.SerializeToString(), media_type="application/x-protobuf")


def _encoding(request: Request) -> Encoding:
    given = request.headers.get("content-type", "")
    found = _TYPES.get(given.partition(";")[0].strip().lower())
    if found is None:
        raise ProblemError(415, f"The content type {given!r:.100} is unknown.", f"Use {' or '.join(_TYPES)}.")
    return found


def _trace_response(answer: IngestAnswer) -> Message:
    found = ExportTraceServiceResponse()
    if answer.rejected:
        found.partial_success.rejected_spans = answer.rejected
        found.partial_success.error_message = answer.reasons
    return found


def _log_response(answer: IngestAnswer) -> Message:
    found = ExportLogsServiceResponse()
    if answer.rejected:
        found.partial_success.rejected_log_records = answer.rejected
        found.partial_success.error_message = answer.reasons
    return found


def _problem(error: SwitchgearError) -> ProblemError:
    """Return the answer to a request that was not taken.

    Raises:
        SwitchgearError: It is a defect.
    """
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, TryAgainError):
        retry_after = str(max(1, math.ceil(error.retry_after_s)))
        return ProblemError(503, error.message, error.hint, {"Retry-After": retry_after})
    if isinstance(error, TooManyRecordsError):
        return ProblemError(413, error.message, error.hint)
    if isinstance(error, UnreadableBodyError):
        return ProblemError(400, error.message, error.hint)
    raise error
