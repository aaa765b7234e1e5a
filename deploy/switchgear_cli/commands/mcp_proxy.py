"""``switchgear mcp-proxy``: a circuit breaker in front of MCP servers."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.plain_logs import configure_small_logging
from switchgear_mcp import servers as known
from switchgear_mcp.channel import MIB
from switchgear_mcp.environment import passed_on
from switchgear_schemas.errors import SwitchgearError, WrongUsageError
from switchgear_schemas.settings import load_settings

if TYPE_CHECKING:
    from switchgear_mcp.servers import Server
    from switchgear_mcp.wrap import Report
    from switchgear_schemas.settings import Settings

_MAX_RESULT: Final = 256.0
_LOUD: Final = ("httpx2", "httpcore2")
_MODULES: Final = frozenset({"httpx2", "uvicorn", "starlette", "anyio"})


def mcp_proxy(
    *words: Annotated[str, Parameter(allow_leading_hyphen=False)],
    name: str | None = None,
    url: str | None = None,
    url_env: str | None = None,
    header: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    header_env: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    env: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    forward_header: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    config: Path | None = None,
    only: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    http: str | None = None,
    allowed_host: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    max_sessions: Annotated[int, Parameter(validator=Number(gte=1))] = 32,
    session_idle: Annotated[float, Parameter(validator=Number(gt=0, lte=86_400))] = 1800.0,
    max_result: Annotated[float, Parameter(validator=Number(gte=0.0625, lte=1024))] = _MAX_RESULT,
    call_timeout: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    fallback: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    terminal_after: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    policy_file: Path | None = None,
    wrap: Path | None = None,
    unwrap: Path | None = None,
    log_level: str | None = None,
    log_format: str | None = None,
) -> int:
    """Guard the tools of an MCP server with circuit breakers, without a change to the server or its clients.

    Give the proxy to a client in place of the server: `switchgear mcp-proxy --name github -- npx -y @some/server`, or with the
    address of a server. Each tool has the circuit mcp:NAME:TOOL. Without SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS the circuits are of
    this process alone.

    Args:
        words: After --, the command that starts the server. Or its address.
        name: The server's name in the circuits.
        url: The server's address.
        url_env: The environment variable that holds the address.
        header: A header for the server, like "Authorization: Bearer TOKEN". Can be repeated.
        header_env: The environment variable that holds such a header. Can be repeated.
        env: A variable that the server gets beside PATH, HOME and a few others, by its name. Can be repeated.
        forward_header: A header of clients that goes on to the server, like authorization. Can be repeated.
        config: A client's configuration with mcpServers. All its servers become one.
        only: A server of the configuration to take. Can be repeated.
        http: Serve HTTP at this host:port, path /mcp, instead of standard input and output. Other machines need tokens.
        allowed_host: A name by which clients reach a proxy on its own machine, beside localhost. Can be repeated.
        max_sessions: Sessions that may be open over HTTP.
        session_idle: A session over HTTP ends after this many seconds without a request or an open stream.
        max_result: The most MiB that one answer of a server may have.
        call_timeout: The longest wait for a server's answer or for progress, in seconds. By default the client decides.
        fallback: TOOL=OTHER: call another tool while the first one's circuit is open. Can be repeated.
        terminal_after: Answer with a protocol error when this many calls of a client were refused.
        policy_file: Policies of this process's circuits, TOML or YAML.
        wrap: Rewrite this client's configuration, JSON or TOML, so that each server runs behind the proxy, with the options given.
        unwrap: Undo that.
        log_level: debug, info, warning or error.
        log_format: console or json.
    """
    if wrap is not None or unwrap is not None:
        of_servers = (
            words,
            name,
            url,
            url_env,
            header,
            header_env,
            env,
            forward_header,
            config,
            only,
            http,
            allowed_host,
        )
        if (wrap is not None and unwrap is not None) or any(of_servers):
            raise WrongUsageError(
                "--wrap and --unwrap only rewrite a file.",
                hint="Give one of them, without options of one server or of HTTP. What a server needs is in its entry: env, headers.",
            )
        kept = {
            "--call-timeout": None if call_timeout is None else f"{call_timeout:g}",
            "--terminal-after": terminal_after,
            "--policy-file": None if policy_file is None else policy_file.absolute(),
            "--max-result": None if max_result == _MAX_RESULT else f"{max_result:g}",
            "--log-level": log_level,
            "--log-format": log_format,
        }
        options = [f"{option}={value}" for option, value in kept.items() if value is not None]
        return _rewrite(wrap, unwrap, [*options, *(f"--fallback={each}" for each in fallback)])
    settings = load_settings(policy_file=policy_file, log_level=log_level, log_format=log_format)
    _configure_logging(settings, serves_http=http is not None)
    given = Given(name, url or _variable("--url-env", url_env), (*header, *_variables(header_env)), env, forward_header)
    servers = _servers(words, given, config, only)
    address, chains = _host_and_port(http), _chains(fallback)
    try:
        from switchgear_mcp.run import Options, run  # noqa: PLC0415 - not to wrap a file
        from switchgear_mcp.sessions import Sessions  # noqa: PLC0415

        if any(isinstance(server, known.UrlServer) for server in servers):
            import switchgear_mcp.address  # noqa: F401, PLC0415 - a client of HTTP takes time to import
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _MODULES:
            raise
        raise SwitchgearError(
            f"The proxy needs {error.name}, which is not installed.",
            hint="Install switchgear with its extra: switchgear[mcp-proxy].",
        ) from None
    _quiet_libraries()
    sessions, most = Sessions(max_sessions, session_idle), int(max_result * MIB)
    run(Options(servers, settings, address, allowed_host, sessions, call_timeout, terminal_after, chains, most))
    return 0


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says about the only server."""

    name: str | None
    url: str | None
    headers: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    forward: tuple[str, ...] = ()


def _configure_logging(settings: Settings, *, serves_http: bool) -> None:
    if serves_http:  # its server logs with structlog
        from switchgear_cli.logs import configure_client_logging  # noqa: PLC0415 - takes memory

        configure_client_logging(settings)
    else:
        configure_small_logging(settings)


def _quiet_libraries() -> None:
    """Leave out what the libraries log about failures of servers: the proxy logs a sentence itself."""
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _servers(words: Sequence[str], given: Given, config: Path | None, only: Sequence[str]) -> Sequence[Server]:
    url = given.url
    if url is None and len(words) == 1 and words[0].startswith(("http://", "https://")):
        url, words = words[0], ()
    if (bool(words), url is not None, config is not None).count(True) != 1:
        raise WrongUsageError(
            "The proxy needs a server: a command after --, an address or --config, and one of them only.",
            hint="Write e.g. switchgear mcp-proxy --name github -- npx -y @some/server.",
        )
    if url is None and (given.headers or given.forward):
        raise WrongUsageError(
            "Headers are for a server at an address.", hint="Leave out --header, --header-env and --forward-header."
        )
    if given.env and not words:
        raise WrongUsageError("--env is for a server that is a command.", hint="Leave it out.")
    if only and config is None:
        raise WrongUsageError("--only is for --config.", hint="Leave it out.")
    if config is not None:
        if given.name is not None:
            raise WrongUsageError("The names of the servers are in the configuration.", hint="Use --only, not --name.")
        return known.of_file(config, only)
    if url is not None:
        return [known.of_url(given.name, url, given.headers, given.forward)]
    return [known.of_command(given.name, words, passed_on(given.env))]


def _variable(option: str, name: str | None) -> str | None:
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        raise WrongUsageError(f"{option} names the environment variable {name}, which is not set.")
    return value


def _variables(names: Sequence[str]) -> list[str]:
    return [value for name in names if (value := _variable("--header-env", name)) is not None]


def _host_and_port(http: str | None) -> str | None:
    if http is None:
        return None
    host, colon, port = http.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise WrongUsageError(f"--http {http!r} is not a host and a port.", hint="Write e.g. --http 127.0.0.1:8765.")
    plain = host.strip("[]")
    return f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}"


def _chains(fallbacks: Sequence[str]) -> dict[str, list[str]]:
    chains: dict[str, list[str]] = {}
    for each in fallbacks:
        tool, equals, other = each.partition("=")
        if not (equals and tool and other):
            raise WrongUsageError(
                f"--fallback {each!r} is not TOOL=OTHER.", hint="Write e.g. --fallback search=backup_search."
            )
        chains.setdefault(tool, []).append(other)
    return chains


def _rewrite(wrap: Path | None, unwrap: Path | None, options: Sequence[str]) -> int:
    """Rewrite a file, and return the exit code: 1 if no server of it runs behind the proxy although one should."""
    from switchgear_cli.own_command import own_command  # noqa: PLC0415 - the proxy itself doesn't need these
    from switchgear_mcp.examine import examined  # noqa: PLC0415
    from switchgear_mcp.wrap import unwrap_file, wrap_file  # noqa: PLC0415

    if wrap is not None:
        # What a trial shows is printed for its server.
        logging.getLogger("switchgear.mcp_proxy").setLevel(logging.CRITICAL)
        # By its path: clients with windows don't have the PATH of a shell.
        report = wrap_file(wrap, own_command("mcp-proxy"), examined, options)
        _report(report, "wrapped")
        return 0 if report.guards else 1
    assert unwrap is not None  # one of them is given
    _report(unwrap_file(unwrap), "unwrapped")
    return 0


def _report(report: Report, done: str) -> None:
    for each in report.left:
        print(f"{each.name}: not {done}. {each.reason}")
    if not report.changed:
        print(f"{report.path} is unchanged.")
        return
    for name in report.changed:
        circuits = f", with the circuits mcp:{report.renamed[name]}:TOOL" if name in report.renamed else ""
        print(f"{name}: {done}{circuits}. {report.seen.get(name, '')}".rstrip())
    print(f"{report.path} is rewritten. Restart the client.")
    if report.backup is not None:
        print(f"The former content is in {report.backup}.")
