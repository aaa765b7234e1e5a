"""Run the proxy until its client has gone, or until a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import uvicorn
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server

from switchgear import FunctionHooks, Switchgear
from switchgear.policies import PolicySet
from switchgear_cli.mcp_proxy.server import ProxyServer
from switchgear_cli.mcp_proxy.servers import Server
from switchgear_cli.mcp_proxy.stdio import standard_streams
from switchgear_cli.mcp_proxy.watch import Watch
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import load_client_settings

log: Final = logging.getLogger("switchgear.mcp_proxy")
PATH: Final = "/mcp"
_STOP_LIMIT_S: Final = 7.0
_FLUSH_LIMIT_S: Final = 2.0


@dataclass(frozen=True)
class Options:
    """How the proxy runs."""

    servers: Sequence[Server]
    address: tuple[str, int] | None = None
    """Where to serve HTTP. None: standard input and output."""
    call_timeout_s: float = 60.0
    terminal_after: int | None = None
    fallbacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the names that clients know."""
    policy_file: Path | None = None
    """Policies of this process's own circuits. None: the default."""


def run(options: Options) -> None:
    """Run the proxy.

    Raises:
        SwitchgearError: It can't start.
    """
    asyncio.run(_run(options))


async def _run(options: Options) -> None:
    watch = Watch()
    gear = _client(watch, options.policy_file)
    try:
        proxy = ProxyServer(
            options.servers, gear, limit_s=options.call_timeout_s, terminal_after=options.terminal_after
        )
        circuit = proxy.names.circuit
        gear.map_fallbacks(
            {circuit(tool): [circuit(other) for other in others] for tool, others in options.fallbacks.items()}
        )
        serving = _serve_stdio(proxy) if options.address is None else _serve_http(proxy, *options.address)
        await _until_stopped(serving, watch.run(proxy))
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


async def _serve_http(proxy: ProxyServer, host: str, port: int) -> None:
    """Serve any number of clients over streamable HTTP."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SwitchgearError(f"The proxy can't listen on {host}:{port}: {why}.", hint="Give another --http.") from None
    app: Any = proxy.http_app(path=PATH, host_origin_protection="auto", allowed_hosts=[host])
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
    log.warning(
        "The proxy serves http://%s:%s%s.", f"[{host}]" if ":" in host else host, listening.getsockname()[1], PATH
    )
    server = _Uvicorn(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await asyncio.wait({serving}, timeout=_STOP_LIMIT_S)


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the proxy, which has to end the servers too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield
