"""Run the server until its client has gone, or until a signal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mcp.server.stdio import stdio_server

from switchgear.runtime.tasks import until_stopped
from switchgear.telemetry.registry import own_version
from switchgear_mcp.ask.api import Api
from switchgear_mcp.ask.callers import Callers
from switchgear_mcp.ask.questions import Questions
from switchgear_mcp.ask.server import AskServer, TokenOf
from switchgear_mcp.ask.stdio import standard_streams
from switchgear_schemas.settings import Settings

log: Final = logging.getLogger("switchgear.mcp")
_STOP_LIMIT_S: Final = 5.0
_MOST_CONNECTIONS: Final = 1024


@dataclass(frozen=True, slots=True)
class Options:
    """How the server runs.

    Args:
        settings: Where the API is, the token of standard input and output, and the limits over HTTP.
        address: ``host:port`` of HTTP. None: standard input and output.
        allowed_hosts: Names by which clients reach a server on its own machine, beside ``localhost``.
    """

    settings: Settings
    address: str | None = None
    allowed_hosts: Sequence[str] = ()


def run(options: Options) -> None:
    """Run the server.

    Raises:
        SwitchgearError: It can't start.
    """
    asyncio.run(_run(options))


async def _run(options: Options) -> None:
    settings = options.settings
    api = Api(settings.api_url or "", settings.api_cafile)
    try:
        serves = _serve_stdio(api, settings) if options.address is None else _serve_http(api, options, options.address)
        await until_stopped(serves, limit_s=_STOP_LIMIT_S)
    finally:
        await api.close()


def _server(api: Api, callers: Callers, settings: Settings, token_of: TokenOf) -> AskServer:
    return AskServer(api, callers, Questions(api, settings.family_pattern), token_of, version=own_version())


async def _serve_stdio(api: Api, settings: Settings) -> None:
    """Serve one client on standard input and output, with the token of the settings."""
    token = None if settings.token is None else settings.token.get_secret_value()
    server = _server(api, Callers(api), settings, lambda _ctx: token).mcp
    async with standard_streams() as streams, stdio_server(*streams) as (read, write):
        with suppress(ConnectionError):  # the client has gone
            await server.run(read, write, server.create_initialization_options())


async def _serve_http(api: Api, options: Options, address: str) -> None:
    """Serve any number of clients over streamable HTTP, each with its own token."""
    from switchgear_http.connections import Connections  # noqa: PLC0415 - uvicorn takes time to import
    from switchgear_http.listening import tls_options  # noqa: PLC0415
    from switchgear_http.serve import serving  # noqa: PLC0415
    from switchgear_http.sockets import listen, url_of  # noqa: PLC0415
    from switchgear_mcp.ask.http import PATH, HttpSide, token_of_request  # noqa: PLC0415

    tls, callers = tls_options(options.settings), Callers(api)
    server = _server(api, callers, options.settings, token_of_request)
    side = HttpSide(address, options.settings, callers, server.mcp, options.allowed_hosts)
    await side.check()
    with listen(address, "--http") as listening:
        connections = Connections(max_open=_MOST_CONNECTIONS)
        log.warning("Serving %s%s.", url_of(listening, "https" if tls else "http"), PATH)
        async with side.running(), serving(side.app, listening, connections, tls=tls, limit_s=_STOP_LIMIT_S) as http:
            await asyncio.shield(http)
