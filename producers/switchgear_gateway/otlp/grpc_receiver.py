"""OTLP over gRPC: the services of traces and logs, usually on port 4317."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from switchgear_gateway.bodies import Budget, Held, unpacked
from switchgear_gateway.otlp.decoding import MAX_BODY_BYTES
from switchgear_gateway.otlp.ingest import Ingest, IngestAnswer, cost_of_calls
from switchgear_gateway.otlp.parts import Encoding, TooManyRecordsError, UnreadableBodyError
from switchgear_gateway.otlp.submission import NotAllowedError, Sender, SenderOf, TryAgainError
from switchgear_http.limits import InProgress, network_of
from switchgear_http.problem import ProblemError
from switchgear_schemas.errors import SwitchgearError

Context = grpc.aio.ServicerContext[Any, Any]
Take = Callable[[bytes, Encoding, Sender], Awaitable[IngestAnswer]]

_MOST_CALLS: Final = 64
_MOST_CALLS_OF_TOKEN: Final = 32
_MOST_UNKNOWN: Final = 1_024
"""Calls whose client isn't known yet."""
_MOST_UNKNOWN_OF_ADDRESS: Final = 64
_MOST_CONNECTIONS: Final = 1_024
_BODY_S: Final = 12.0
"""The longest time for a whole message."""
_GRACE_S: Final = 3.0
_COLLECTOR: Final = "opentelemetry.proto.collector"
_STATUS: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.UNAVAILABLE,
}
_GZIP: Final = b"\x1f\x8b"
"""How gzip begins. No protobuf message begins like this."""
_UNPACKS: Final = "grpc.per_message_decompression"
_IDENTITY_AND_GZIP: Final = 0b101


class _Receiver:
    """The methods of the services.

    The token is checked before a message is read, and a message is unpacked and decoded here, within the limits that hold for HTTP. So
    they take a stream of bytes, of which a client sends one message. A request that was not acknowledged, and one that comes while too
    much is in progress, is answered UNAVAILABLE, after which exporters send it again.
    """

    def __init__(self, ingest: Ingest, sender_of: SenderOf, budget: Budget) -> None:
        self._ingest = ingest
        self._sender_of = sender_of
        self._budget = budget
        self._unknown = InProgress(_MOST_UNKNOWN_OF_ADDRESS, "address")
        self._of_token = InProgress(_MOST_CALLS_OF_TOKEN, "token")
        self._all = InProgress(_MOST_CALLS, "gateway")

    def handlers(self) -> list[grpc.GenericRpcHandler[Any, Any]]:
        """Return what gRPC calls."""
        services = {
            "trace.v1.TraceService": self._traces,
            "logs.v1.LogsService": self._logs,
            "metrics.v1.MetricsService": self._metrics,
        }
        return [
            grpc.method_handlers_generic_handler(
                f"{_COLLECTOR}.{name}", {"Export": grpc.stream_unary_rpc_method_handler(export)}
            )
            for name, export in services.items()
        ]

    async def _traces(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        answer = await self._taken(self._ingest.traces, messages, context)
        found = ExportTraceServiceResponse()
        if answer.rejected:
            found.partial_success.rejected_spans = answer.rejected
            found.partial_success.error_message = answer.reasons
        return found.SerializeToString()

    async def _logs(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        answer = await self._taken(self._ingest.logs, messages, context)
        found = ExportLogsServiceResponse()
        if answer.rejected:
            found.partial_success.rejected_log_records = answer.rejected
            found.partial_success.error_message = answer.reasons
        return found.SerializeToString()

    async def _metrics(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """Drop metrics: many exporters have one address for all signals."""
        await self._taken(_dropped, messages, context)
        return b""

    async def _taken(self, take: Take, messages: AsyncIterator[bytes], context: Context) -> IngestAnswer:
        headers = {str(key): value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            with self._unknown.request(_address(context.peer())):
                sender = await self._sender_of(headers)
            with contextlib.ExitStack() as running:
                if sender.client:
                    running.enter_context(self._of_token.request(sender.client))
                running.enter_context(self._all.request(""))
                held = running.enter_context(self._budget.request(sender.client))
                body = await _read(messages, held)
                held.add(cost_of_calls(body))
                return await take(body, "protobuf", sender)
        except (ProblemError, NotAllowedError) as error:
            await context.abort(_STATUS.get(error.status, grpc.StatusCode.PERMISSION_DENIED), str(error))
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "The message did not arrive in time.")
        except TooManyRecordsError as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except UnreadableBodyError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TryAgainError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


async def _dropped(_body: bytes, _encoding: Encoding, _sender: Sender) -> IngestAnswer:
    return IngestAnswer(0, "")


async def _read(messages: AsyncIterator[bytes], held: Held) -> bytes:
    """Return the message of a call, unpacked.

    Raises:
        ProblemError: It is broken or too large, or all requests together hold too much.
        TimeoutError: It did not arrive in time.
    """
    body = b""
    async with asyncio.timeout(_BODY_S):
        async for body in messages:  # noqa: B007 - the first is the only one
            break
    held.add(len(body))
    return await unpacked(body, held, limit=MAX_BODY_BYTES) if body.startswith(_GZIP) else body


def _address(peer: str) -> str:
    """Return the address in ``ipv4:10.0.0.1:4711`` or ``ipv6:%5B::1%5D:4711``, in which one host has one."""
    return network_of(unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]"))


@contextlib.asynccontextmanager
async def serving_otlp_grpc(
    ingest: Ingest,
    sender_of: SenderOf,
    address: str,
    *,
    budget: Budget | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[int]:
    """Serve on ``host:port`` while the block runs, and yield the port. Port 0 takes a free one.

    Requests in progress when the block ends have three seconds to finish.

    Args:
        ingest: What takes the spans and records.
        sender_of: Returns who sent a request, by its metadata.
        address: ``host:port``.
        budget: Bounds the memory of all requests. None: of these alone.
        credentials: The certificate, for TLS.

    Raises:
        SwitchgearError: The address can't be listened on.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.so_reuseport", 0),  # a taken port is an error, it is not shared
            ("grpc.max_receive_message_length", MAX_BODY_BYTES),
            (_UNPACKS, 0),  # gRPC would unpack a small message to gigabytes
            ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
            ("grpc.max_allowed_incoming_connections", _MOST_CONNECTIONS),
            ("grpc.max_concurrent_streams", _MOST_CALLS),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
        ],
        maximum_concurrent_rpcs=_MOST_UNKNOWN,
    )
    server.add_generic_rpc_handlers(_Receiver(ingest, sender_of, budget or Budget()).handlers())
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
