"""Run the proxy until its client has gone, or until a signal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from switchgear import FunctionHooks, Switchgear
from switchgear.policies import PolicySet
from switchgear.runtime.tasks import until_stopped
from switchgear_mcp.known import default_folder
from switchgear_mcp.proxy import Proxy
from switchgear_mcp.servers import Server
from switchgear_mcp.sessions import Sessions
from switchgear_mcp.stdio import StandardStreams, serve
from switchgear_mcp.upstream import MOST_BYTES
from switchgear_mcp.watch import Watch
from switchgear_schemas.settings import Settings, load_client_settings

if TYPE_CHECKING:
    from switchgear_mcp.front import Front

log: Final = logging.getLogger("switchgear.mcp_proxy")
_STOP_LIMIT_S: Final = 7.0
_FLUSH_LIMIT_S: Final = 2.0


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
    call_timeout_s: float | None = None
    terminal_after: int | None = None
    fallbacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the names that clients know."""
    most_bytes: int = MOST_BYTES


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
        proxy = Proxy(
            options.servers if front is None else front.servers,
            gear,
            limit_s=options.call_timeout_s,
            terminal_after=options.terminal_after,
            most=options.most_bytes,
            known_in=default_folder(),
        )
        circuit = proxy.names.circuit
        gear.map_fallbacks(
            {circuit(tool): [circuit(other) for other in others] for tool, others in options.fallbacks.items()}
        )
        serves = _serve_stdio(proxy) if front is None else front.serve(proxy)
        await until_stopped(serves, watch.run(proxy), limit_s=_STOP_LIMIT_S)
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


async def _serve_stdio(proxy: Proxy) -> None:
    streams = StandardStreams()
    await streams.open()
    await serve(proxy, streams)


def _front(options: Options) -> Front | None:
    """Return what serves HTTP, None for standard input and output."""
    if options.address is None:
        return None
    from switchgear_mcp.front import Front  # noqa: PLC0415 - uvicorn takes time to import

    return Front(options.address, options.settings, options.servers, options.allowed_hosts, options.sessions)
