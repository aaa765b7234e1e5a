"""The processes: a sink (the writer, with the HTTP API where it owns the engine), or the API alone."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from switchgear_schemas.errors import SettingsError, SwitchgearError
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import Layout, migrate, pending
from switchgear_sinks.serving import Server, listen, make_server, url_of
from switchgear_sinks.status import create_status_app
from switchgear_sinks.store import Store, open_store
from switchgear_sinks.writer import Limits, Writer, WriterMetrics

log = structlog.get_logger()

_STOP_LIMIT_S: Final = 12.0
_READY_POLL_S: Final = 0.05
_ADDRESS_SETTING: Final = "SWITCHGEAR_API_HTTP"


async def run_sink(
    settings: Settings, *, api: bool = False, instance_id: str | None = None, limits: Limits | None = None
) -> None:
    """Apply the migrations, then write until SIGTERM or SIGINT.

    With the embedded engine the HTTP API is always served by this process, since no other can open the data.

    Args:
        settings: Everything that can be set.
        api: Serve the HTTP API here for a ClickHouse server too.
        instance_id: Static membership in the consumer group; with the embedded engine it follows from the folder.
        limits: Batch sizes and memory; from the settings where None.

    Raises:
        SwitchgearError: it cannot start, or cannot go on: one sentence says why.
    """
    layout = Layout.of(settings)
    stopping = _on_signals()
    registry = _registry()
    with listen(settings.api_http, _ADDRESS_SETTING) as listening:
        async with await open_store(settings) as store:
            log.info("store opened", store=str(store.location))
            await migrate(store, layout)
            writer = Writer(
                store,
                settings.kafka,
                settings.topics,
                WriterMetrics(registry),
                limits=limits
                or Limits(batch_rows=settings.sink_batch_max_rows, batch_age_s=settings.sink_batch_max_age_s),
                instance_id=instance_id or _instance_of(store),
            )

            def readiness() -> Mapping[str, bool]:
                return {"writer": writer.ready}

            if api or settings.embedded:
                from switchgear_sinks.api.app import create_app  # noqa: PLC0415 - a sink alone does without it

                app = create_app(store, settings, registry=registry, readiness=readiness)
            else:
                app = create_status_app(store, registry=registry, readiness=readiness)
            await _run(stopping, make_server(app), listening, writer)


async def run_api(settings: Settings, *, grpc_address: str | None = None) -> None:
    """Serve the HTTP API over a ClickHouse server until SIGTERM or SIGINT.

    Args:
        settings: The store and the address.
        grpc_address: ``host:port`` to serve tool health by gRPC on, too; needs the extra ``grpc``.

    Raises:
        SettingsError: ``clickhouse_url`` names the embedded engine.
        SwitchgearError: it cannot start: one sentence says why.
    """
    if settings.embedded:
        raise SettingsError(
            "The embedded ClickHouse engine can be open in one process only, and that is the sink: "
            "`switchgear sink` (or `switchgear up`) serves the HTTP API itself.",
            hint="For an API of its own set SWITCHGEAR_CLICKHOUSE_URL to a ClickHouse server, http://host:8123/switchgear.",
        )
    from switchgear_sinks.api.app import create_app  # noqa: PLC0415 - as above

    stopping = _on_signals()
    registry = _registry()
    with listen(settings.api_http, _ADDRESS_SETTING) as listening:
        async with await open_store(settings) as store:
            log.info("store opened", store=str(store.location))
            missing = await pending(store)
            if missing:
                log.warning("tables are missing or old: a sink makes them when it starts", migrations=len(missing))
            async with _grpc(store, grpc_address):
                await _run(stopping, make_server(create_app(store, settings, registry=registry)), listening, None)


@asynccontextmanager
async def _grpc(store: Store, address: str | None) -> AsyncIterator[None]:
    if address is None:
        yield
        return
    try:
        from switchgear_sinks.grpc.server import serving_grpc  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SwitchgearError(f"gRPC needs the package {error.name}.", hint="Install switchgear[grpc].") from error
    async with serving_grpc(store, address):
        yield


async def _run(stopping: asyncio.Event, server: Server, listening: socket.socket, writer: Writer | None) -> None:
    """Run all until told to stop or until one ends; then end the others, and raise what went wrong."""
    tasks = [asyncio.create_task(server.serve(sockets=[listening]), name="http")]
    if writer is not None:
        tasks.append(asyncio.create_task(writer.run(), name="writer"))
    told = asyncio.create_task(stopping.wait(), name="stop")
    ready = asyncio.create_task(_announce(server, writer, url_of(listening)), name="ready")
    try:
        await asyncio.wait([*tasks, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        ready.cancel()
        if writer is not None:
            writer.stop()
        server.stop()
        _, late = await asyncio.wait(tasks, timeout=_STOP_LIMIT_S)
        for task in late:
            log.warning("did not stop in time", task=task.get_name())
            task.cancel()
        ended: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [each for each in ended if isinstance(each, Exception)]
    if failures:
        raise failures[-1]
    log.info("stopped")


async def _announce(server: Server, writer: Writer | None, url: str) -> None:
    while not server.started or not (writer is None or writer.ready):  # noqa: ASYNC110 - uvicorn has a flag, no event
        await asyncio.sleep(_READY_POLL_S)
    log.info("ready", http=url)


def _on_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _instance_of(store: Store) -> str | None:
    """One process owns a folder, so the folder names the member: killed and restarted, it has its partitions back at once."""
    if store.location.folder is None:
        return None
    where = f"{socket.gethostname()}:{store.location.folder.resolve()}"
    return f"sink-{hashlib.sha256(where.encode()).hexdigest()[:16]}"
