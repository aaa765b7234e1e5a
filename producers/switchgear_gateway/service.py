"""Run a gateway: Kafka on one side, HTTP and OTLP on the other."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

from switchgear import Switchgear
from switchgear.emitter.emitter import Emitter
from switchgear.follower.follower import CircuitFollower
from switchgear.runtime.background_thread import Background
from switchgear.telemetry.registry import process_registry
from switchgear.transport import Wire
from switchgear_gateway.app import create_app
from switchgear_gateway.bodies import Budget
from switchgear_gateway.circuits.routes import CircuitRoutes
from switchgear_gateway.decide import DecideRoutes
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.executions import ExecutionRoutes
from switchgear_gateway.hooks import HookRoutes
from switchgear_gateway.names import name_check
from switchgear_gateway.otlp.grpc_receiver import serving_otlp_grpc
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp_routes import OtlpRoutes, Senders, grpc_credentials, otlp_topics
from switchgear_gateway.parts import Part, Runs, Stops
from switchgear_gateway.probes import ProbeRoutes
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.tenant_tools import TenantTools
from switchgear_http.authenticator import Authenticator
from switchgear_http.connections import Connections
from switchgear_http.listening import check_listen, tls_options
from switchgear_http.principal import LOCAL
from switchgear_http.server import Server, collect_seldom, make_server
from switchgear_http.sockets import listen, url_of
from switchgear_schemas.globs import globs_in
from switchgear_schemas.settings import Settings

log = structlog.get_logger()

ADDRESS_SETTING: Final = "SWITCHGEAR_GATEWAY_HTTP"
_MAX_CONNECTIONS: Final = 8192
_READY_POLL_S: Final = 0.05
_SERVER_LIMIT_S: Final = 6.0
_FLUSH_LIMIT_S: Final = 5.0
_CLOSE_LIMIT_S: Final = 5.0


class Fleet:
    """The gateway's own view of the fleet: a client and the follower that it shares with the routes of the circuits.

    Args:
        settings: The brokers and the topics.
    """

    def __init__(self, settings: Settings) -> None:
        background = Background("switchgear-gateway")
        options: dict[str, Any] = {"topic_prefix": settings.topic_prefix, "background": background}
        self.follower = CircuitFollower(settings.kafka, **options)
        emitter = Emitter(settings.kafka, family_pattern=settings.family_pattern, service="gateway", **options)
        self._wire = Wire(emitter, self.follower, background=background)
        self.gear = Switchgear(
            self,
            service="gateway",
            family_pattern=settings.family_pattern,
            include_last_error=settings.include_last_error,
        )

    def connect(self, client: Any, *, service: str, buffer_size: int) -> Wire:  # noqa: ARG002 - the same as Transport's
        """Return the connection of the gateway's client."""
        return self._wire

    @property
    def ready(self) -> bool:
        """Whether the circuits are loaded and followed."""
        return not self.follower.status().stale and self.follower.loaded


def parts_of(
    settings: Settings,
    fleet: Fleet,
    publisher: Publisher,
    ingest: Ingest,
    senders: Senders,
    registry: CollectorRegistry,
    budget: Budget | None = None,
) -> list[Part]:
    """Return the parts of the gateway. Add a part here."""
    budget, tenant_tools = budget or Budget(), senders.tenant_tools
    submit, pattern, trusted = senders.of(LOCAL).submit, settings.family_pattern, globs_in(settings.outages_in_text)
    names = name_check(any_names=settings.gateway_any_names)
    key = None if settings.gateway_permit_key is None else settings.gateway_permit_key.get_secret_value().encode()
    return [
        ExecutionRoutes(
            publisher, budget, EmitterClocks(settings.late_after_s), names=names, tenant_tools=tenant_tools
        ),
        CircuitRoutes(fleet.follower, family_pattern=pattern, tenant_tools=tenant_tools),
        DecideRoutes(fleet.gear, submit, key=key, budget=budget, names=names, tenant_tools=tenant_tools),
        HookRoutes(
            fleet.gear,
            submit,
            family_pattern=pattern,
            outages_in_text=trusted,
            budget=budget,
            names=names,
            tenant_tools=tenant_tools,
        ),
        OtlpRoutes(ingest, senders, budget, registry),
        ProbeRoutes(registry, lambda: {"kafka": publisher.ready, "circuits": fleet.ready}),
    ]


async def run_gateway(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    At the end the gateway takes no more requests, finishes those in progress, and waits for Kafka's acknowledgements.

    Raises:
        SettingsError: A setting is wrong, or other machines could reach a gateway without tokens.
        SwitchgearError: The gateway can't start, or can't continue. The message says why.
    """
    authenticator = Authenticator.of(settings)
    check_listen(settings.gateway_http, authenticator, ADDRESS_SETTING)
    if settings.gateway_otlp_grpc is not None:
        check_listen(settings.gateway_otlp_grpc, authenticator, "SWITCHGEAR_GATEWAY_OTLP_GRPC")
    tls = tls_options(settings)
    stopping = _stop_on_signals()
    _allow_many_connections()
    registry = process_registry("gateway")
    with listen(settings.gateway_http, ADDRESS_SETTING) as listening:
        fleet, publisher = Fleet(settings), Publisher(settings, registry)
        ingest = Ingest(outages_in_text=globs_in(settings.outages_in_text))
        names, tenant_tools = name_check(any_names=settings.gateway_any_names), TenantTools(settings.family_pattern)
        senders, budget = Senders(authenticator, publisher, names=names, tenant_tools=tenant_tools), Budget()
        parts = parts_of(settings, fleet, publisher, ingest, senders, registry, budget)
        app = create_app(parts, settings, registry=registry, authenticator=authenticator)
        server = make_server(app, Connections(max_open=_MAX_CONNECTIONS), tls)
        topics = otlp_topics(settings, ingest, senders)
        publishing = asyncio.create_task(publisher.run(), name="publisher")
        try:
            fleet.gear.start()
            async with _grpc(settings, ingest, senders, budget):
                background = [(type(part).__name__, part.run()) for part in parts if isinstance(part, Runs)]
                if topics is not None:
                    background.append(("otlp topics", topics.run()))
                works = [asyncio.create_task(work, name=name) for name, work in background]
                await _serve(stopping, server, listening, publishing, works, parts)
        finally:
            await ingest.close(limit_s=_FLUSH_LIMIT_S)
            await publisher.flush(_FLUSH_LIMIT_S)
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
            await fleet.gear.aclose(_CLOSE_LIMIT_S)
    log.info("stopped")


async def _serve(
    stopping: asyncio.Event,
    server: Server,
    listening: socket.socket,
    publishing: asyncio.Task[None],
    works: Sequence[asyncio.Task[None]],
    parts: Sequence[Part],
) -> None:
    """Serve until a signal, or until one task ends. Then finish the requests, end the works, and raise what failed.

    The publisher goes on, because the requests in progress wait for it.
    """
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="http")
    signalled = asyncio.create_task(stopping.wait(), name="stop")
    scheme = "https" if server.config.is_ssl else "http"
    announcing = asyncio.create_task(_announce(server, url_of(listening, scheme)), name="ready")
    owned = (serving, publishing, *works)
    try:
        await asyncio.wait([signalled, *owned], return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in owned if task.done()]
    finally:
        signalled.cancel()
        announcing.cancel()
        for part in parts:
            if isinstance(part, Stops):
                part.stop()
        server.stop()
        await asyncio.wait([serving], timeout=_SERVER_LIMIT_S)
        for task in (serving, *works):
            task.cancel()
        await asyncio.gather(serving, *works, return_exceptions=True)
    for task in ended:
        task.result()  # raises what it died of
        raise RuntimeError(f"The task {task.get_name()} ended by itself.")


async def _announce(server: Server, url: str) -> None:
    while not server.started:  # noqa: ASYNC110 - uvicorn has a flag, no event
        await asyncio.sleep(_READY_POLL_S)
    collect_seldom()
    log.info("ready", http=url)


@contextlib.asynccontextmanager
async def _grpc(settings: Settings, ingest: Ingest, senders: Senders, budget: Budget) -> AsyncIterator[None]:
    if settings.gateway_otlp_grpc is None:
        yield
        return
    credentials = grpc_credentials(settings)
    async with serving_otlp_grpc(
        ingest, senders.of_headers, settings.gateway_otlp_grpc, budget=budget, credentials=credentials
    ) as port:
        log.info("OTLP over gRPC", port=port)
        yield


def _stop_on_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as it goes: each connection is one."""
    import resource  # noqa: PLC0415 - not on Windows

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
