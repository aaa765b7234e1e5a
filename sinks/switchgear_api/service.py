"""Run a sink (the writer, with the HTTP API if it owns the engine), or the API alone."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import structlog

from switchgear.telemetry.registry import process_registry
from switchgear_api.probes import probes_of
from switchgear_http.application import create_probe_application
from switchgear_http.authenticator import Authenticator
from switchgear_http.listening import check_listen, tls_options
from switchgear_http.serve import Work, serve, stop_on_signals
from switchgear_http.server import Server, make_server
from switchgear_http.sockets import listen
from switchgear_schemas.errors import SettingsError, SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import Layout, migrate, pending
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer import Writer, WriterLimits, WriterMetrics

log = structlog.get_logger()

_STOP_LIMIT_S: Final = 12.0
SWITCH_S: Final = 0.0005
"""How long a thread may compute while another one waits, in seconds.

The event loop gives the turn away with each write to a console. With Python's 5 ms, one change for fifty consoles can take a quarter of a second
while a thread computes the page.
"""
_ADDRESS_SETTING: Final = "SWITCHGEAR_API_HTTP"


async def run_sink(
    settings: Settings,
    *,
    api: bool = False,
    instance_id: str | None = None,
    rewind: bool = False,
    limits: WriterLimits | None = None,
) -> None:
    """Apply the migrations, then write until SIGTERM or SIGINT.

    With the embedded engine this process also serves the HTTP API, because no other process can open the data.

    Args:
        settings: All settings.
        api: Serve the HTTP API here for a ClickHouse server too.
        instance_id: Static membership in the consumer group. With the embedded engine it follows from the folder.
        rewind: Read again what the store lacks, because it was lost or is another one.
        limits: Batch sizes and memory; by default from the settings.

    Raises:
        SwitchgearError: The sink can't start, or can't continue. The message says why.
    """
    layout = Layout.of(settings)
    api = api or settings.embedded
    authenticator = _access(settings) if api else None
    tls = tls_options(settings)
    stopping = stop_on_signals()
    registry = process_registry("sink")
    with listen(settings.api_http, _ADDRESS_SETTING) as listening:
        async with await open_store(settings) as store:
            log.info("store opened", store=str(store.location))
            await migrate(store, layout)
            writer = Writer(
                store,
                settings.kafka,
                settings.topics,
                WriterMetrics(registry),
                limits=limits or WriterLimits.of(settings),
                instance_id=instance_id or _instance_of(store),
                rewind=rewind,
            )

            def readiness() -> Mapping[str, bool]:
                return {"writer": writer.ready}

            if not api:
                app = create_probe_application(probes_of(store, registry, readiness))
                await _run(stopping, make_server(app, tls=tls), listening, writer)
                return
            from switchgear_api.app import create_app  # noqa: PLC0415 - a sink alone does without it
            from switchgear_api.console.console import Console  # noqa: PLC0415 - as above

            async with Console(store, settings, follow=True) as console:
                app = create_app(
                    store,
                    settings,
                    registry=registry,
                    readiness=readiness,
                    authenticator=authenticator,
                    console=console,
                )
                await _run(stopping, make_server(app, tls=tls), listening, writer, console.end_streams)


async def run_api(settings: Settings, *, grpc_address: str | None = None) -> None:
    """Serve the HTTP API over a ClickHouse server until SIGTERM or SIGINT.

    Args:
        settings: The store and the address.
        grpc_address: ``host:port`` to serve tool health on by gRPC too; needs the extra ``grpc``.

    Raises:
        SettingsError: ``clickhouse_url`` names the embedded engine.
        SwitchgearError: The API can't start. The message says why.
    """
    if settings.embedded:
        raise SettingsError(
            "Only one process can open the embedded ClickHouse engine, and that is the sink: "
            "`switchgear sink` (or `switchgear up`) serves the HTTP API itself.",
            hint="To run the API alone, set SWITCHGEAR_CLICKHOUSE_URL to a ClickHouse server, http://host:8123/switchgear.",
        )
    from switchgear_api.app import create_app  # noqa: PLC0415 - as above
    from switchgear_api.console.console import Console  # noqa: PLC0415 - as above

    authenticator = _access(settings)
    tls = tls_options(settings)
    stopping = stop_on_signals()
    registry = process_registry("api")
    with listen(settings.api_http, _ADDRESS_SETTING) as listening:
        async with await open_store(settings) as store:
            log.info("store opened", store=str(store.location))
            missing = await pending(store)
            if missing:
                log.warning("tables are missing or old: a sink creates them when it starts", migrations=len(missing))
            async with _grpc(store, grpc_address), Console(store, settings, follow=True) as console:
                app = create_app(store, settings, registry=registry, authenticator=authenticator, console=console)
                await _run(stopping, make_server(app, tls=tls), listening, None, console.end_streams)


def _access(settings: Settings) -> Authenticator:
    """Return the ways to log in to the API.

    Raises:
        SettingsError: A setting is wrong, or other machines could reach an API without tokens.
    """
    authenticator = Authenticator.of(settings)
    check_listen(settings.api_http, authenticator, _ADDRESS_SETTING)
    return authenticator


@asynccontextmanager
async def _grpc(store: Store, address: str | None) -> AsyncIterator[None]:
    if address is None:
        yield
        return
    try:
        from switchgear_api.grpc.server import serving_grpc  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SwitchgearError(f"gRPC needs the package {error.name}.", hint="Install switchgear[grpc].") from error
    async with serving_grpc(store, address):
        yield


async def _run(
    stopping: asyncio.Event,
    server: Server,
    listening: socket.socket,
    writer: Writer | None,
    end_streams: Callable[[], None] = lambda: None,
) -> None:
    """Serve, and write if there is a writer, until a signal or until one of them ends."""
    sys.setswitchinterval(SWITCH_S)
    works = [] if writer is None else [Work("writer", writer.run, writer.stop)]
    await serve(
        server,
        listening,
        stopping,
        works,
        is_ready=lambda: writer is None or writer.ready,
        end_streams=end_streams,
        limit_s=_STOP_LIMIT_S,
    )
    log.info("stopped")


def _instance_of(store: Store) -> str | None:
    """Return the static member name: one process owns a folder, so a restarted sink has its partitions back at once."""
    if store.location.folder is None:
        return None
    where = f"{socket.gethostname()}:{store.location.folder.resolve()}"
    return f"sink-{hashlib.sha256(where.encode()).hexdigest()[:16]}"
