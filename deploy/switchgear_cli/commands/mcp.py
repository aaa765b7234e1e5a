"""``switchgear mcp``: an MCP server that answers agents' questions about tools."""

from __future__ import annotations

import logging
from typing import Annotated, Final

from cyclopts import Parameter

from switchgear_cli.discovery import API, client_settings
from switchgear_cli.plain_logs import configure_small_logging
from switchgear_schemas.errors import SwitchgearError, WrongUsageError

_LOUD: Final = ("mcp.server", "sse_starlette")
_MODULES: Final = frozenset({"mcp", "mcp_types", "anyio", "starlette", "uvicorn"})


def mcp(
    *,
    api_url: str | None = None,
    http: str | None = None,
    allowed_host: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    log_level: str | None = None,
    log_format: str | None = None,
) -> int:
    """Answer agents' questions about tools, over MCP: which are down, why, until when, and what to use instead.

    Give it to an agent as a server on standard input and output: `claude mcp add switchgear -- switchgear mcp`. It asks the HTTP API
    with the token of SWITCHGEAR_TOKEN. Over HTTP it asks with the token of each request.

    Args:
        api_url: Where the HTTP API is.
        http: Serve HTTP at this host:port, path /mcp, instead of standard input and output.
        allowed_host: A name by which clients reach a server on its own machine, beside localhost. Can be repeated.
        log_level: debug, info, warning or error.
        log_format: console or json.
    """
    address = _host_and_port(http)
    settings = client_settings(use=(API,), api_url=api_url, log_level=log_level, log_format=log_format)
    configure_small_logging(settings)
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        from switchgear_mcp.ask.run import Options, run  # noqa: PLC0415 - the SDK of MCP takes a second to import
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _MODULES:
            raise
        raise SwitchgearError(
            f"`switchgear mcp` needs {error.name}, which is not installed.",
            hint="Install switchgear with its extra: switchgear[mcp-server].",
        ) from None
    run(Options(settings, address, allowed_host))
    return 0


def _host_and_port(http: str | None) -> str | None:
    if http is None:
        return None
    host, colon, port = http.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise WrongUsageError(f"--http {http!r} is not a host and a port.", hint="Write e.g. --http 127.0.0.1:8630.")
    plain = host.strip("[]")
    return f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}"
