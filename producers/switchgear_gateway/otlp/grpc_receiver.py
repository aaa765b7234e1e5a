"""OTLP over gRPC: the services of traces and logs, usually on port 4317."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_pb
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

from switchgear_gateway.bodies import MAX_BODY_BYTES
from switchgear_gateway.otlp.ingest import Answer, Ingest
from switchgear_gateway.otlp.submission import NotAllowedError, Sender, SenderOf, TryAgainError
from switchgear_schemas.errors import SwitchgearError

R = TypeVar("R", bound=Message)
Context = grpc.aio.ServicerContext[Any, Any]

_MOST_CALLS: Final = 64
_MOST_CONNECTIONS: Final = 1_024
_GRACE_S: Final = 3.0
_STATUS: Final = {401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED}


class _Receiver:
    """What both services share.

    A request that was not acknowledged is answered UNAVAILABLE, after which exporters send it again.
    """

    def __init__(self, ingest: Ingest, sender_of: SenderOf) -> None:
        self._ingest = ingest
        self._sender_of = sender_of

    async def _taken(self, take: Callable[[R, Sender], Awaitable[Answer]], request: R, context: Context) -> Answer:
        headers = {str(key): value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            return await take(request, await self._sender_of(headers))
        except NotAllowedError as error:
            await context.abort(_STATUS.get(error.status, grpc.StatusCode.PERMISSION_DENIED), str(error))
        except TryAgainError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


class TraceService(_Receiver, traces_grpc.TraceServiceServicer):
    """The service of traces."""

    async def Export(  # noqa: N802 - the name in the protocol
        self, request: traces_pb.ExportTraceServiceRequest, context: Context
    ) -> traces_pb.ExportTraceServiceResponse:
        """Take the spans of a request."""
        answer = await self._taken(self._ingest.traces, request, context)
        found = traces_pb.ExportTraceServiceResponse()
        if answer.rejected:
            found.partial_success.rejected_spans = answer.rejected
            found.partial_success.error_message = answer.reasons
        return found


class LogsService(_Receiver, logs_grpc.LogsServiceServicer):
    """The service of logs."""

    async def Export(  # noqa: N802 - the name in the protocol
        self, request: logs_pb.ExportLogsServiceRequest, context: Context
    ) -> logs_pb.ExportLogsServiceResponse:
        """Take the log records of a request."""
        answer = await self._taken(self._ingest.logs, request, context)
        found = logs_pb.ExportLogsServiceResponse()
        if answer.rejected:
            found.partial_success.rejected_log_records = answer.rejected
            found.partial_success.error_message = answer.reasons
        return found


@contextlib.asynccontextmanager
async def serving_otlp_grpc(
    ingest: Ingest, sender_of: SenderOf, address: str, *, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[int]:
    """Serve on ``host:port`` while the block runs, and yield the port. Port 0 takes a free one.

    Requests in progress when the block ends have three seconds to finish.

    Args:
        ingest: What takes the spans and records.
        sender_of: Returns who sent a request, by its metadata.
        address: ``host:port``.
        credentials: The certificate, for TLS.

    Raises:
        SwitchgearError: The address can't be listened on.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.so_reuseport", 0),  # a taken port is an error, it is not shared
            ("grpc.max_receive_message_length", MAX_BODY_BYTES),
            ("grpc.max_allowed_incoming_connections", _MOST_CONNECTIONS),
            ("grpc.max_concurrent_streams", _MOST_CALLS),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
        ],
        maximum_concurrent_rpcs=_MOST_CALLS,
    )
    add_traces: Callable[..., None] = traces_grpc.add_TraceServiceServicer_to_server
    add_logs: Callable[..., None] = logs_grpc.add_LogsServiceServicer_to_server
    add_traces(TraceService(ingest, sender_of), server)
    add_logs(LogsService(ingest, sender_of), server)
    try:
        port = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError:
        port = 0
    if not port:
        raise SwitchgearError(
            f"OTLP over gRPC can't listen on {address}.", hint="Is it in use? Choose another port for it."
        )
    try:
        await server.start()
        yield port
    finally:
        await server.stop(_GRACE_S)
