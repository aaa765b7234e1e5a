"""Run the proxy until its client has gone, or until a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server

from switchgear import FunctionHooks, Switchgear
from switchgear.policies import PolicySet
from switchgear_http.connections import Connections
from switchgear_http.listening import tls_options
from switchgear_http.serve import serving
from switchgear_http.sockets import listen, url_of
from switchgear_mcp.front import PATH, Front, Sessions
from switchgear_mcp.message_size import DEFAULT_MIB, MIB
from switchgear_mcp.server import ProxyServer
from switchgear_mcp.servers import Server
from switchgear_mcp.stdio import standard_streams
from switchgear_mcp.watch import Watch
from switchgear_schemas.settings import Settings, load_client_settings

log: Final = logging.getLogger("switchgear.mcp_proxy")
_STOP_LIMIT_S: Final = 7.0
_FLUSH_LIMIT_S: Final = 2.0
_MOST_CONNECTIONS: Final = 1024


@dataclass(frozen=True)
class Options:
    """How the proxy runs."""

    servers: Sequence[Server]
    settings: Settings
    """Who may log in over HTTP, and the policies of this process's own circuits."""
    address: str | None = None
    """``host:port`` of HTTP. None: standard input and output."""
    allowed_hosts: Sequence[str] = ()
    sessions: Sessions = field(default_factory=Sessions)
    call_timeout_s: float = 60.0
    terminal_after: int | None = None
    fallbacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the names that clients know."""
    max_result_mib: float = DEFAULT_MIB


def run(options: Options) -> None:
    """Run the proxy.

    Raises:
        SwitchgearError: It can't start.
    """
    asyncio.run(_run(options))


async def _run(options: Options) -> None:
    front = _front(options)
    watch = Watch()
    gear = _client(watch, options.settings.policy_file)
    try:
        proxy = ProxyServer(
            options.servers,
            gear,
            limit_s=options.call_timeout_s,
            terminal_after=options.terminal_after,
            most=int(options.max_result_mib * MIB),
        )
        circuit = proxy.names.circuit
        gear.map_fallbacks(
            {circuit(tool): [circuit(other) for other in others] for tool, others in options.fallbacks.items()}
        )
        serves = _serve_stdio(proxy) if front is None else _serve_http(proxy, front, options)
        await _until_stopped(serves, watch.run(proxy))
        async with asyncio.timeout(_STOP_LIMIT_S):
            await proxy.close()
    except TimeoutError:
        log.warning("A server did not end in time.")
    finally:
        await asyncio.to_thread(gear.close, _FLUSH_LIMIT_S)


def _client(watch: Watch, policy_file: Path | None) -> Switchgear:
    """Return the client of the fleet if brokers or a gateway are configured, else one of this process alone."""
    given: dict[str, Any] = {
        "hooks": [FunctionHooks(on_transition=watch.on_transition)],
        "local_policies": None if policy_file is None else PolicySet.load(policy_file),
    }
    settings = load_client_settings()
    if settings.local or settings.model_fields_set.isdisjoint({"kafka_bootstrap_servers", "gateway_url"}):
        given["bootstrap_servers"] = None
    return Switchgear.from_env(**given)


async def _until_stopped(serving: Awaitable[None], watching: Awaitable[None]) -> None:
    """Serve until the client has gone, or until SIGINT or SIGTERM."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    tasks = [asyncio.ensure_future(each) for each in (serving, watching, stopped.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_STOP_LIMIT_S)


async def _serve_stdio(proxy: ProxyServer) -> None:
    """Serve one client on standard input and output, in the protocol with a handshake."""
    inner = proxy._mcp_server  # noqa: SLF001 - FastMCP's run_stdio_async serves the other protocol too
    async with (
        proxy._lifespan_manager(),  # noqa: SLF001 - as above
        inner.lifespan(inner) as state,
        stdio_server(*await standard_streams()) as (read, write),
    ):
        with suppress(ConnectionError):  # the client has gone
            await serve_loop(
                inner, read, write, lifespan_state=state, init_options=inner.create_initialization_options()
            )


def _front(options: Options) -> Front | None:
    if options.address is None:
        return None
    return Front(options.address, options.settings, options.servers, options.allowed_hosts, options.sessions)


async def _serve_http(proxy: ProxyServer, front: Front, options: Options) -> None:
    """Serve any number of clients over streamable HTTP."""
    assert options.address is not None
    tls = tls_options(options.settings)
    app, lifespan = front.serving(proxy)
    with listen(options.address, "--http") as listening:
        connections = Connections(max_open=_MOST_CONNECTIONS)
        log.warning("The proxy serves %s%s.", url_of(listening, "https" if tls else "http"), PATH)
        async with lifespan, serving(app, listening, connections, tls=tls, limit_s=_STOP_LIMIT_S) as http:
            await asyncio.shield(http)
