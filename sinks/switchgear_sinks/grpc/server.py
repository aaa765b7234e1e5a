"""The gRPC server: switchgear.v1.ToolHealth, and the standard grpc.health.v1.Health beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.clickhouse_errors import clickhouse_message
from switchgear_sinks.grpc import messages
from switchgear_sinks.grpc import tool_health_pb2 as pb
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.repository import ToolMetricsRepository
from switchgear_sinks.store import Store

log = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]
SERVICE: Final = "switchgear.v1.ToolHealth"
PING_EVERY_S: Final = 5.0
GRACE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What clients may take of the server.

    Args:
        connections: Open at a time; the next one is closed.
        calls: At a time, by all of them; the next one is answered RESOURCE_EXHAUSTED.
        handshake_s: Longest time from a connection to HTTP/2's first frames, in seconds.
        idle_s: Longest time that a connection may be without a call, in seconds.
        request_bytes: Of one request: a name, and a tenant.
    """

    connections: int = 128
    calls: int = 64
    handshake_s: float = 5.0
    idle_s: float = 300.0
    request_bytes: int = 65_536

    def options(self) -> list[tuple[str, int]]:
        """As gRPC has them."""
        return [
            ("grpc.max_allowed_incoming_connections", self.connections),
            ("grpc.max_concurrent_streams", self.calls),
            ("grpc.server_handshake_timeout_ms", int(self.handshake_s * 1000)),
            ("grpc.max_connection_idle_ms", int(self.idle_s * 1000)),
            ("grpc.max_receive_message_length", self.request_bytes),
        ]


DEFAULT_BOUNDS: Final = Bounds()
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a taken port is an error, not a port shared
    ("grpc.keepalive_time_ms", 30_000),  # a client that is gone, or does not read, is found out
    ("grpc.keepalive_timeout_ms", 10_000),
)


class ToolHealthServicer:
    """The two calls, each answered from the store at once; nothing is cached.

    Args:
        store: Where everything is read.
        registered_tools: Tools that exist: those nobody called are reported as unknown.
    """

    def __init__(self, store: Store, registered_tools: Sequence[str] = ()) -> None:
        self._store = store
        self._registered = list(registered_tools)

    async def summary(self, request: pb.GetHealthSummaryRequest, context: Context) -> Message:
        """``GetHealthSummary``."""
        found = await _answered(self._service(request.tenant).get_health_summary(), context)
        return messages.health_summary(found)

    async def tool(self, request: pb.GetToolHealthRequest, context: Context) -> Message:
        """``GetToolHealth``."""
        if not request.tool_name:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "tool_name is empty: name the tool.")
        found = await _answered(self._service(request.tenant).get_tool_health(request.tool_name), context)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"No tool {request.tool_name!r} has been called.")
        return messages.tool_health(found)

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """What a server takes."""
        calls: dict[str, tuple[Callable[..., Awaitable[Message]], Any]] = {
            "GetHealthSummary": (self.summary, pb.GetHealthSummaryRequest),
            "GetToolHealth": (self.tool, pb.GetToolHealthRequest),
        }
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    call, request_deserializer=kind.FromString, response_serializer=_serialized
                )
                for name, (call, kind) in calls.items()
            },
        )

    def _service(self, tenant: str) -> ToolHealthService:
        repository = ToolMetricsRepository(self._store, tenant=tenant or None)
        return ToolHealthService(self._store, repository, self._registered)


@contextlib.asynccontextmanager
async def serving_grpc(
    store: Store, address: str, *, registered_tools: Sequence[str] = (), bounds: Bounds = DEFAULT_BOUNDS
) -> AsyncIterator[int]:
    """Serve on ``host:port`` while the block runs; yields the port (0 in the address takes a free one).

    The health service says SERVING as long as the store answers, for ``""`` and for ``switchgear.v1.ToolHealth``.
    Calls that run when the block ends have three seconds.

    Raises:
        SwitchgearError: the address cannot be listened on.
    """
    server = grpc.aio.server(options=[*_OPTIONS, *bounds.options()], maximum_concurrent_rpcs=bounds.calls)
    server.add_generic_rpc_handlers((ToolHealthServicer(store, registered_tools).handler(),))
    state = health.aio.HealthServicer()  # type: ignore[attr-defined]  # its stubs leave aio out
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise SwitchgearError(
            f"The address {address} cannot be listened on for gRPC.",
            hint="Stop what uses it, or give another host:port.",
        ) from error
    await _tell(state, await store.ping())
    await server.start()
    log.info("serving gRPC", port=port)
    watching = asyncio.create_task(_watch(store, state), name="grpc-health")
    try:
        yield port
    finally:
        watching.cancel()
        await server.stop(GRACE_S)
        with contextlib.suppress(asyncio.CancelledError):
            await watching


async def _watch(store: Store, state: Any) -> None:
    """Keep the health service's word true; if this fails, it says NOT_SERVING and the error goes to whoever serves."""
    try:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            await _tell(state, await store.ping())
    finally:
        await _tell(state, answers=False)


async def _tell(state: Any, answers: bool) -> None:
    status = health_pb2.HealthCheckResponse.SERVING if answers else health_pb2.HealthCheckResponse.NOT_SERVING
    for service in ("", SERVICE):
        await state.set(service, status)


async def _answered(work: Awaitable[Any], context: Context) -> Any:
    """The result, or UNAVAILABLE with the reason: a client may try again."""
    try:
        return await work
    except ClickHouseError as error:
        reason = f"ClickHouse: {clickhouse_message(error)}"
    except SwitchgearError as error:
        reason = error.message
    except TimeoutError:
        reason = "ClickHouse did not answer in time."
    except OSError as error:
        reason = f"ClickHouse cannot be reached: {error}."
    log.warning("gRPC call failed", reason=reason)
    await context.abort(grpc.StatusCode.UNAVAILABLE, reason)
    return None


def _serialized(message: Message) -> bytes:
    return bytes(message.SerializeToString())
