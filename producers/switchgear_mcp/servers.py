"""The servers behind the proxy: from the command line, or from a client's configuration file."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from switchgear_mcp.environment import passed_on
from switchgear_mcp.forwarding import ENTRY_KEY, names_of
from switchgear_mcp.names import is_plain, plain_names
from switchgear_mcp.wrapped_entry import (
    CONTAINERS,
    FROM_VARIABLE,
    FROM_VARIABLES,
    HEADERS,
    VARIABLES,
    address_of,
    is_wrapped,
)
from switchgear_schemas.errors import SwitchgearError, WrongUsageError

log: Final = logging.getLogger("switchgear.mcp_proxy")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SHOWN: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?/{0,2}[^/?#@]*(?![^/?#]*@)")
"""The part of a wrong address that holds no secret."""
_EXAMPLE: Final = "switchgear mcp-proxy --name github -- npx -y @some/server"


@dataclass(frozen=True, slots=True)
class CommandServer:
    """A server that the proxy starts and talks to over standard input and output."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the short list that every server gets."""
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class UrlServer:
    """A server at an address of HTTP."""

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    forward_headers: tuple[str, ...] = ()
    """Headers of a client's request that go on to the server, in lower case."""
    sse: bool = False
    """Whether it has the former transport, HTTP with SSE. Else that is tried only if it has no streamable HTTP."""

    @property
    def shown_url(self) -> str:
        """The scheme and the host of the address. The rest may be secret."""
        return shown_address(self.url)


Server = CommandServer | UrlServer


def shown_address(url: str) -> str:
    """Return the scheme and the host of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def of_command(name: str | None, words: Sequence[str], env: Mapping[str, str] | None = None) -> CommandServer:
    """Return the server that a command line starts.

    Args:
        name: Its name.
        words: The command and its arguments.
        env: Variables that it gets beside those that every server gets.

    Raises:
        WrongUsageError: There is no such command, or the name can't be used.
    """
    return _startable(CommandServer(_checked(name), words[0], tuple(words[1:]), env or {}))


def of_url(name: str | None, url: str, headers: Sequence[str], forward: Sequence[str] = ()) -> UrlServer:
    """Return the server at an address.

    Args:
        name: Its name.
        url: Its address.
        headers: Lines like ``Authorization: Bearer …``. ``${NAME}`` in them stands for an environment variable.
        forward: The names of headers of clients that go on to it.

    Raises:
        WrongUsageError: The name, the address or a header can't be used.
    """
    own = {key: _expanded(f"The header {key}", value) for key, value in map(header, headers)}
    return UrlServer(_checked(name), _address(url), own, names_of(forward, "--forward-header"))


def header(line: str) -> tuple[str, str]:
    """Return the name and the value of a header line.

    Raises:
        WrongUsageError: It has no colon. The message doesn't show the line, which may hold a secret.
    """
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or "\n" in line or "\r" in line:
        raise WrongUsageError("A header has no colon.", hint='Write it like "Authorization: Bearer TOKEN".')
    return name.strip(), value.strip()


def of_file(path: Path, only: Sequence[str] = ()) -> list[Server]:
    """Return the servers of a client's configuration file, JSON or TOML.

    A server that can't be used is left out with a warning, so that the others work. If it was asked for by its name, or no other is
    left, it is an error.

    Args:
        path: The file. ``${NAME}`` and ``${NAME:-default}`` in it stand for environment variables.
        only: The names of the servers to take. By default all.

    Raises:
        SwitchgearError: The file can't be read or understood, or has no such server.
    """
    from switchgear_schemas import json_file  # noqa: PLC0415 - most proxies have one server, from the command line

    config = json_file.read(path, way_out=f"Or name one server on the command line: {_EXAMPLE}.").value
    entries = next((config[key] for key in CONTAINERS if isinstance(config.get(key), dict)), None)
    if not entries:
        raise WrongUsageError(f"{path} names no MCP servers.", hint='It needs an object "mcpServers".')
    unknown = next((name for name in only if name not in entries), None)
    if unknown is not None:
        raise WrongUsageError(
            f"{path} has no server {unknown!r}.",
            hint=f"It has {', '.join(sorted(entries))}: give one of them to --only.",
        )
    plain, found, wrong = plain_names(entries), list[Server](), list[SwitchgearError]()
    for name, entry in entries.items():
        if only and name not in only:
            continue
        try:
            server = of_entry(f"The server {name!r} in {path}", plain[name], entry)
        except SwitchgearError as error:
            if only:
                raise
            wrong.append(error)
        else:
            found += [] if server is None else [server]
    if wrong and not found:
        raise wrong[0]
    for each in wrong:
        log.warning("%s The server is left out. %s", each.message, each.hint)
    return found or _none_enabled(path)


def _none_enabled(path: Path) -> list[Server]:
    raise WrongUsageError(f"All servers in {path} are disabled.", hint="Enable one of them.")


def of_entry(where: str, plain: str, entry: Any) -> Server | None:
    """Return the server of an entry, None if it is disabled.

    Args:
        where: The server in errors, as the begin of a sentence.
        plain: Its name in circuits.
        entry: The entry.

    Raises:
        SwitchgearError: It can't be used.
    """
    if not isinstance(entry, dict):
        raise WrongUsageError(f"{where} is not an object.", hint="It needs a command or a url.")
    if is_disabled(entry):
        return None
    if is_wrapped(entry):
        raise WrongUsageError(
            f"{where} runs behind the proxy already.", hint="Undo that with --unwrap, or leave it out."
        )
    entry = _expanded(where, entry)
    command, address = entry.get("command"), address_of(entry)
    if isinstance(command, str) and command:
        return _startable(_of_command_entry(where, plain, entry))
    if address is None or not isinstance(address[1], str) or not address[1]:
        raise WrongUsageError(f"{where} has neither a command nor a url.", hint="It needs one of them.")
    forward = names_of(entry.get(ENTRY_KEY, []), f"{where}: {ENTRY_KEY}")
    return UrlServer(plain, _address(address[1]), _headers(where, entry), forward, entry.get("type") == "sse")


def is_disabled(entry: Mapping[str, Any]) -> bool:
    """Return whether the client doesn't use a server."""
    return entry.get("disabled") is True or entry.get("enabled") is False


def _of_command_entry(where: str, plain: str, entry: dict[str, Any]) -> CommandServer:
    args, env, folder = entry.get("args") or [], entry.get("env") or {}, entry.get("cwd")
    if not isinstance(args, list) or not isinstance(env, dict) or not isinstance(folder, str | None):
        raise WrongUsageError(f"{where} has args, env or cwd of a wrong type.", hint="Correct the file.")
    passed = passed_on([name for name in entry.get(VARIABLES) or () if isinstance(name, str)])
    named = {key: str(value) for key, value in env.items()}
    return CommandServer(plain, entry["command"], tuple(map(str, args)), {**passed, **named}, folder)


def _headers(where: str, entry: dict[str, Any]) -> dict[str, str]:
    """Return the headers of an entry, with those that Codex takes from variables."""
    given = [entry.get(key) or {} for key in (*HEADERS, FROM_VARIABLES)]
    if not all(isinstance(headers, dict) for headers in given):
        raise WrongUsageError(f"{where} has headers of a wrong type.", hint="Correct the file.")
    *plain, named = given
    found = {name: str(value) for headers in plain for name, value in headers.items()}
    found |= {name: _variable(where, str(variable)) for name, variable in named.items()}
    if FROM_VARIABLE in entry:
        found["Authorization"] = f"Bearer {_variable(where, str(entry[FROM_VARIABLE]))}"
    return found


def _expanded(where: str, value: Any) -> Any:
    """Return a value of the file with the environment variables in its texts."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(where, found[1], found[2]), value)
    if isinstance(value, list):
        return [_expanded(where, each) for each in value]
    if isinstance(value, dict):
        return {key: _expanded(where, each) for key, each in value.items()}
    return value


def _variable(where: str, name: str, default: str | None = None) -> str:
    value = os.environ.get(name) or default
    if value is None:
        raise WrongUsageError(f"{where} needs the environment variable {name}, which is not set.")
    return value


def _checked(name: str | None) -> str:
    if name is None:
        raise WrongUsageError(
            "The server needs a name.", hint=f"Its circuits are mcp:NAME:TOOL. Write e.g. {_EXAMPLE}."
        )
    if not is_plain(name):
        raise WrongUsageError(
            f"The server can't have the name {name!r}.",
            hint="Use letters, digits, dots, hyphens and underscores, at most 64.",
        )
    return name


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        host = _SHOWN.match(url)
        shown = "" if host is None else f"{host[0][:100]}…"
        raise WrongUsageError(f"{shown!r} is not an address.", hint="Write e.g. https://host/mcp.")
    return url


def _startable(server: CommandServer) -> CommandServer:
    """Check that there is such a command. A wrong one never works, so the proxy doesn't start."""
    path = server.env.get("PATH", os.environ.get("PATH"))
    folder = None if server.folder is None else Path(server.folder).expanduser()
    if folder is not None and not folder.is_dir():
        raise WrongUsageError(f"The server {server.name} can't be started: there is no folder {folder}.")
    place = str(folder / server.command) if folder is not None and os.sep in server.command else server.command
    if shutil.which(place, path=path) is None:
        what = "is not a program that can be started" if Path(place).exists() else "was not found"
        raise WrongUsageError(
            f"The server {server.name} can't be started: the command {server.command!r} {what}.",
            hint="Install it, or give its path.",
        )
    return server
