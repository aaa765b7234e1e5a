"""OTLP over gRPC: the services of traces and logs, usually on port 4317."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from switchgear_gateway.otlp.decoding import MAX_BODY_BYTES
from switchgear_gateway.otlp.ingest import Answer, Ingest
from switchgear_gateway.otlp.submission import NotAllowedError, Sender, SenderOf, TryAgainError
from switchgear_gateway.otlp.unreadable import Encoding, TooManyRecordsError, UnreadableBodyError
from switchgear_schemas.errors import SwitchgearError

Context = grpc.aio.ServicerContext[Any, Any]

_MOST_CALLS: Final = 64
_MOST_CONNECTIONS: Final = 1_024
_GRACE_S: Final = 3.0
_COLLECTOR: Final = "opentelemetry.proto.collector"
_STATUS: Final = {401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED}


class _Receiver:
    """The methods of both services. They take bytes, so that the token is checked before a request is decoded.

    A request that was not acknowledged is answered UNAVAILABLE, after which exporters send it again.
    """

    def __init__(self, ingest: Ingest, sender_of: SenderOf) -> None:
        self._ingest = ingest
        self._sender_of = sender_of

    def handlers(self) -> list[grpc.GenericRpcHandler[Any, Any]]:
        """Return what gRPC calls."""
        services = {"trace.v1.TraceService": self._traces, "logs.v1.LogsService": self._logs}
        return [
            grpc.method_handlers_generic_handler(
                f"{_COLLECTOR}.{name}", {"Export": grpc.unary_unary_rpc_method_handler(export)}
            )
            for name, export in services.items()
        ]

    async def _traces(self, body: bytes, context: Context) -> bytes:
        answer = await self._taken(self._ingest.traces, body, context)
        found = ExportTraceServiceResponse()
        if answer.rejected:
            found.partial_success.rejected_spans = answer.rejected
            found.partial_success.error_message = answer.reasons
        return found.SerializeToString()

    async def _logs(self, body: bytes, context: Context) -> bytes:
        answer = await self._taken(self._ingest.logs, body, context)
        found = ExportLogsServiceResponse()
        if answer.rejected:
            found.partial_success.rejected_log_records = answer.rejected
            found.partial_success.error_message = answer.reasons
        return found.SerializeToString()

    async def _taken(
        self, take: Callable[[bytes, Encoding, Sender], Awaitable[Answer]], body: bytes, context: Context
    ) -> Answer:
        headers = {str(key): value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            return await take(body, "protobuf", await self._sender_of(headers))
        except NotAllowedError as error:
            await context.abort(_STATUS.get(error.status, grpc.StatusCode.PERMISSION_DENIED), str(error))
        except TooManyRecordsError as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except UnreadableBodyError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TryAgainError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


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
    server.add_generic_rpc_handlers(_Receiver(ingest, sender_of).handlers())
    try:
        port = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError:
        port = 0
    if not port:
        raise SwitchgearError(
            f"OTLP over gRPC can't listen on {address}.",
            hint="Stop what uses it, or choose another port: `switchgear gateway --otlp-grpc`, `switchgear up --otlp-port`.",
        )
    try:
        await server.start()
        yield port
    finally:
        await server.stop(_GRACE_S)
