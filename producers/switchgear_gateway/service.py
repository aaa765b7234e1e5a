"""Run a gateway: Kafka on one side, HTTP and OTLP on the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
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
from switchgear_gateway.circuits.routes import CircuitRoutes
from switchgear_gateway.decide import DecideRoutes
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.executions import ExecutionRoutes
from switchgear_gateway.hooks import HookRoutes
from switchgear_gateway.otlp.grpc_receiver import serving_otlp_grpc
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.receiver import OtlpReceiver
from switchgear_gateway.otlp_routes import OtlpRoutes, Senders, grpc_credentials, otlp_topics
from switchgear_gateway.parts import Part, Runs, Stops
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.shared import Shared
from switchgear_http.authenticator import Authenticator
from switchgear_http.connections import Connections
from switchgear_http.listening import check_listen, tls_options
from switchgear_http.principal import LOCAL
from switchgear_http.probes import Probes, State, checked
from switchgear_http.serve import Work, serve, stop_on_signals
from switchgear_http.server import make_server
from switchgear_http.sockets import listen
from switchgear_schemas.globs import globs_in
from switchgear_schemas.settings import Settings

log = structlog.get_logger()

ADDRESS_SETTING: Final = "SWITCHGEAR_GATEWAY_HTTP"
_MAX_CONNECTIONS: Final = 8192
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
) -> list[Part]:
    """Return the parts of the gateway. Add a part here."""
    shared, submit, trusted = senders.shared, senders.of(LOCAL).submit, globs_in(settings.outages_in_text)

    async def ready() -> State:
        return checked({"kafka": publisher.ready, "circuits": fleet.ready})

    key = None if settings.gateway_permit_key is None else settings.gateway_permit_key.get_secret_value().encode()
    return [
        ExecutionRoutes(publisher, EmitterClocks(settings.late_after_s), shared),
        CircuitRoutes(fleet.follower, shared),
        DecideRoutes(fleet.gear, submit, shared, key=key),
        HookRoutes(fleet.gear, submit, shared, outages_in_text=trusted),
        OtlpReceiver(ingest, senders.of, budget=shared.budget),
        OtlpRoutes(ingest, registry),
        Probes(registry, ready),
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
    stopping = stop_on_signals()
    _allow_many_connections()
    registry = process_registry("gateway")
    with listen(settings.gateway_http, ADDRESS_SETTING) as listening:
        fleet, publisher = Fleet(settings), Publisher(settings, registry)
        ingest = Ingest(outages_in_text=globs_in(settings.outages_in_text))
        senders = Senders(authenticator, publisher, Shared.of(settings))
        parts = parts_of(settings, fleet, publisher, ingest, senders, registry)
        app = create_app(parts, settings, registry=registry, authenticator=authenticator)
        server = make_server(app, Connections(max_open=_MAX_CONNECTIONS), tls)
        topics = otlp_topics(settings, ingest, senders)
        publishing = asyncio.create_task(publisher.run(), name="publisher")
        try:
            fleet.gear.start()
            async with _grpc(settings, ingest, senders):
                works = [Work(type(part).__name__, part.run) for part in parts if isinstance(part, Runs)]
                if topics is not None:
                    works.append(Work("otlp topics", topics.run))
                # The publisher goes on to the end, because the requests in progress wait for it.
                await serve(
                    server, listening, stopping, works, watched=[publishing], end_streams=partial(_end_streams, parts)
                )
        finally:
            await ingest.close(limit_s=_FLUSH_LIMIT_S)
            await publisher.flush(_FLUSH_LIMIT_S)
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
            await fleet.gear.aclose(_CLOSE_LIMIT_S)
    log.info("stopped")


def _end_streams(parts: list[Part]) -> None:
    for part in parts:
        if isinstance(part, Stops):
            part.stop()


@contextlib.asynccontextmanager
async def _grpc(settings: Settings, ingest: Ingest, senders: Senders) -> AsyncIterator[None]:
    if settings.gateway_otlp_grpc is None:
        yield
        return
    credentials = grpc_credentials(settings)
    async with serving_otlp_grpc(
        ingest,
        senders.of_headers,
        settings.gateway_otlp_grpc,
        budget=senders.shared.budget,
        credentials=credentials,
    ) as port:
        log.info("OTLP over gRPC", port=port)
        yield


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as it goes: each connection is one."""
    import resource  # noqa: PLC0415 - not on Windows

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
