"""Serve switchgear.v1.ToolHealth by gRPC, with the standard grpc.health.v1.Health."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import grpc
import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from switchgear_api.grpc import tool_health_pb2 as pb
from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.clickhouse_errors import clickhouse_message
from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.repository import ToolMetricsRepository
from switchgear_sinks.store import Store

log = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]
SERVICE: Final = "switchgear.v1.ToolHealth"
_STATUS: Final = {
    "healthy": pb.HEALTH_STATUS_HEALTHY,
    "degraded": pb.HEALTH_STATUS_DEGRADED,
    "unhealthy": pb.HEALTH_STATUS_UNHEALTHY,
    "unknown": pb.HEALTH_STATUS_UNKNOWN,
}
PING_EVERY_S: Final = 5.0
GRACE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits on what clients may use of the server.

    Args:
        connections: Open connections. The next one is closed.
        calls: Calls in progress, over all connections. The next one is answered RESOURCE_EXHAUSTED.
        handshake_s: Seconds from a connection to the first frames of HTTP/2.
        idle_s: Seconds that a connection may be without a call.
        request_bytes: Size of one request, which has a name and a tenant.
    """

    connections: int = 128
    calls: int = 64
    handshake_s: float = 5.0
    idle_s: float = 300.0
    request_bytes: int = 65_536

    def options(self) -> list[tuple[str, int]]:
        """Return the limits as options of gRPC."""
        return [
            ("grpc.max_allowed_incoming_connections", self.connections),
            ("grpc.max_concurrent_streams", self.calls),
            ("grpc.server_handshake_timeout_ms", int(self.handshake_s * 1000)),
            ("grpc.max_connection_idle_ms", int(self.idle_s * 1000)),
            ("grpc.max_receive_message_length", self.request_bytes),
        ]


DEFAULT_LIMITS: Final = ServerLimits()
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a taken port is an error, it is not shared
    ("grpc.keepalive_time_ms", 30_000),  # detects a client that is gone or does not read
    ("grpc.keepalive_timeout_ms", 10_000),
)


class ToolHealthServicer:
    """The two calls. Each is answered from the store; nothing is cached.

    Args:
        store: The store to read.
        registered_tools: Tools that exist. Those without calls are reported as unknown.
    """

    def __init__(self, store: Store, registered_tools: Sequence[str] = ()) -> None:
        self._store = store
        self._registered = list(registered_tools)

    async def summary(self, request: pb.GetHealthSummaryRequest, context: Context) -> Message:
        """Answer ``GetHealthSummary``."""
        found = await _answered(self._service(request.tenant).get_health_summary(), context)
        return _health_summary(found)

    async def tool(self, request: pb.GetToolHealthRequest, context: Context) -> Message:
        """Answer ``GetToolHealth``."""
        if not request.tool_name:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "tool_name is empty: name the tool.")
        found = await _answered(self._service(request.tenant).get_tool_health(request.tool_name), context)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"No tool {request.tool_name!r} has been called.")
        return _tool_health(found)

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """Return the handler to add to a server."""
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
    store: Store, address: str, *, registered_tools: Sequence[str] = (), limits: ServerLimits = DEFAULT_LIMITS
) -> AsyncIterator[int]:
    """Serve on ``host:port`` while the block runs, and yield the port. Port 0 takes a free one.

    The health service reports SERVING while the store answers, for ``""`` and for ``switchgear.v1.ToolHealth``.
    Calls in progress when the block ends have three seconds to finish.

    Raises:
        SwitchgearError: The address can't be listened on.
    """
    server = grpc.aio.server(options=[*_OPTIONS, *limits.options()], maximum_concurrent_rpcs=limits.calls)
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
    await _report(state, await store.ping())
    await server.start()
    log.info("serving gRPC", port=port)
    monitoring = asyncio.create_task(_monitor(store, state), name="grpc-health")
    try:
        yield port
    finally:
        monitoring.cancel()
        await server.stop(GRACE_S)
        with contextlib.suppress(asyncio.CancelledError):
            await monitoring


async def _monitor(store: Store, state: Any) -> None:
    """Report the store's state to the health service every few seconds, and NOT_SERVING at the end."""
    try:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            await _report(state, await store.ping())
    finally:
        await _report(state, answers=False)


async def _report(state: Any, answers: bool) -> None:
    status = health_pb2.HealthCheckResponse.SERVING if answers else health_pb2.HealthCheckResponse.NOT_SERVING
    for service in ("", SERVICE):
        await state.set(service, status)


async def _answered(work: Awaitable[Any], context: Context) -> Any:
    """Return the result, or end the call with UNAVAILABLE and the reason, so that the client may try again."""
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


def _health_summary(summary: Mapping[str, Any]) -> pb.HealthSummary:
    """Return the message for a result of ``get_health_summary``."""
    return pb.HealthSummary(
        overall_status=_STATUS[summary["overall_status"]],
        total_tools=summary["total_tools"],
        **{name: summary[name] for name in ("healthy", "degraded", "unhealthy", "unknown")},
        tools=[pb.ToolSummary(**{**tool, "status": _STATUS[tool["status"]]}) for tool in summary["tools"]],
        checked_at=_timestamp(summary["checked_at"]),
    )


def _tool_health(health: Mapping[str, Any]) -> pb.ToolHealthInfo:
    """Return the message for a result of ``get_tool_health``. Values that are None stay absent."""
    times = {"last_success", "last_failure"}
    given: dict[str, Any] = {name: value for name, value in health.items() if value is not None}
    given |= {name: _timestamp(given[name]) for name in times & given.keys()}
    return pb.ToolHealthInfo(**{**given, "status": _STATUS[health["status"]]})


def _timestamp(moment: datetime) -> Timestamp:
    """Return the protobuf time, exact to the microsecond."""
    made = Timestamp()
    made.FromDatetime(moment)
    return made
