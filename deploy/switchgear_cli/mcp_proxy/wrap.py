"""Rewrite an MCP client's configuration, so that each server is started behind ``switchgear mcp-proxy``, and back.

Known are the formats of Claude Desktop, Claude Code and Cursor (``mcpServers``), VS Code (``servers``) and Zed (``context_servers``).
Secrets stay out of arguments, because all users of a machine can see those: headers and URLs with a query go into ``env``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from switchgear_cli import json_file
from switchgear_cli.json_file import JsonFileError

COMMAND: Final = ("switchgear",)
HEADER: Final = "SWITCHGEAR_MCP_HEADER_"
URL: Final = "SWITCHGEAR_MCP_URL"
TYPE: Final = "SWITCHGEAR_MCP_TYPE"
"""Holds the ``type`` of a remote server, which ``unwrapped`` restores. The proxy doesn't read it."""
SUFFIX: Final = ".switchgear-backup"
_CONTAINERS: Final = ("mcpServers", "servers", "context_servers")
_STREAMABLE: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
_LOGINS: Final = ("oauth", "auth", "headersHelper")
"""Keys of remote servers that the client logs in to. The proxy could not."""
_WAY_OUT: Final = "By hand, a server's command is switchgear, and its args are mcp-proxy --name NAME -- and its former command with its args."

Config = Mapping[str, Any]
Entry = dict[str, Any]


class Left(NamedTuple):
    """A server that stays as it is."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was done with a file.

    Attributes:
        path: The file, with links followed.
        changed: The servers that were wrapped or unwrapped. If there are none, the file is unchanged.
        left: The other servers, with the reason.
        backup: The file with the former content; None if there is none.
    """

    path: Path
    changed: tuple[str, ...]
    left: tuple[Left, ...]
    backup: Path | None


def wrapped(config: Config, command: Sequence[str] = COMMAND) -> dict[str, Any]:
    """Return a configuration whose servers run behind the proxy. Servers that can't, and those that do already, stay as they are.

    Args:
        config: The client's configuration.
        command: How to start Switchgear. Give an absolute path where the client doesn't have your PATH.
    """
    return _rewritten(config, lambda name, entry: _wrapped_entry(name, entry, command))[0]


def unwrapped(config: Config) -> dict[str, Any]:
    """Return a configuration whose servers run without the proxy, from what their entries say. An empty ``args`` is left out."""
    return _rewritten(config, _unwrapped_entry)[0]


def is_wrapped(entry: object) -> bool:
    """Return whether a server runs behind the proxy."""
    if not isinstance(entry, Mapping):
        return False
    command, args = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not isinstance(args, list) or "mcp-proxy" not in args:
        return False
    place = args.index("mcp-proxy")
    ours = PurePath(command.replace("\\", "/")).stem == "switchgear" or "switchgear_cli" in args[:place]
    return ours and len(args) > place + 2 and args[place + 1] == "--name"


def wrap_file(path: Path, command: Sequence[str] = COMMAND) -> Report:
    """Wrap the servers of a file. The former content is in a backup beside it, which :func:`unwrap_file` uses.

    Raises:
        JsonFileError: The file can't be read, understood or written. It is unchanged.
    """
    file = json_file.read(path, way_out=_WAY_OUT)
    _check_servers(file.path, file.value)
    value, changed, left = _rewritten(file.value, lambda name, entry: _wrapped_entry(name, entry, command))
    backup = _backup(file.path)
    if not changed:
        return Report(file.path, (), left, backup if backup.exists() else None)
    if not (backup.exists() and any(is_wrapped(entry) for _, _, entry in _servers(file.value))):
        # Without wrapped servers in the file, an older backup is of no use any more.
        try:
            json_file.write(backup, file.data, like=file.path)
        except OSError as error:
            raise JsonFileError(
                f"{file.path} was not changed, because its backup {backup} can't be written: {error.strerror}."
            ) from None
    file.replace(file.rendered(value))
    return Report(file.path, changed, left, backup)


def unwrap_file(path: Path) -> Report:
    """Restore the servers of a file. If it has not changed since it was wrapped, it is restored to the byte.

    Raises:
        JsonFileError: The file can't be read, understood or written. It is unchanged.
    """
    file = json_file.read(path, way_out="By hand, take out what the args have up to and with the two hyphens.")
    _check_servers(file.path, file.value)
    backup = _backup(file.path)
    old: json_file.JsonFile | None = None
    if backup.exists():
        try:
            old = json_file.read(backup, way_out="")
        except JsonFileError:  # damaged: the entries have all that is needed
            old = None
    before = {} if old is None else {(where, name): entry for where, name, entry in _servers(old.value)}
    entries = iter([(where, name) for where, name, _ in _servers(file.value)])

    def restored(name: str, entry: Entry) -> Entry | str:
        former = before.get(next(entries))
        if isinstance(former, dict) and is_wrapped(entry) and _same_wrapped(name, former, entry):
            return copy.deepcopy(former)
        return _unwrapped_entry(name, entry)

    value, changed, left = _rewritten(file.value, restored)
    if not changed:
        return Report(file.path, (), left, backup if backup.exists() else None)
    file.replace(old.data if old is not None and old.value == value else file.rendered(value))
    backup.unlink(missing_ok=True)
    return Report(file.path, changed, left, None)


# -- servers in a configuration ---------------------------------------------------------------------------------------


def _servers(config: Config) -> Iterator[tuple[str, str, Any]]:
    """Yield the place, the name and the entry of each server, in the order of :func:`_rewritten`."""
    for where, servers in _containers(config):
        for name, entry in servers.items():
            yield where, name, entry


def _containers(config: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object of servers with its place. ``~/.claude.json`` also has one per project."""
    for key in _CONTAINERS:
        if isinstance(config.get(key), dict):
            yield key, config[key]
    projects = config.get("projects")
    for folder, project in projects.items() if isinstance(projects, dict) else ():
        if isinstance(project, dict) and isinstance(project.get("mcpServers"), dict):
            yield f"projects.{folder}", project["mcpServers"]


def _rewritten(
    config: Config, rewrite: Callable[[str, Entry], Entry | str]
) -> tuple[dict[str, Any], tuple[str, ...], tuple[Left, ...]]:
    """Return a copy with other entries, the names of those that changed, and the others with the reason."""
    value = copy.deepcopy(dict(config))
    changed, left = [], []
    for where, servers in _containers(value):
        for name, entry in servers.items():
            shown = f"{name} ({where.removeprefix('projects.')})" if where.startswith("projects.") else name
            found = rewrite(name, entry) if isinstance(entry, dict) else "It is not an object."
            if isinstance(found, str):
                left.append(Left(shown, found))
            else:
                servers[name] = found
                changed.append(shown)
    return value, tuple(changed), tuple(left)


def _check_servers(path: Path, config: Config) -> None:
    if not any(True for _ in _servers(config)):
        raise JsonFileError(
            f"{path} names no MCP servers. It is unchanged.",
            hint=f"Servers are in an object {', '.join(_CONTAINERS[:-1])} or {_CONTAINERS[-1]}.",
        )


def _backup(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


# -- one entry --------------------------------------------------------------------------------------------------------


def _wrapped_entry(name: str, entry: Entry, command: Sequence[str]) -> Entry | str:
    """Return the entry behind the proxy, or why it stays as it is."""
    if is_wrapped(entry):
        return "It runs behind the proxy already."
    start = [*command[1:], "mcp-proxy", "--name", name]
    if "command" in entry:
        found = _of_command(entry, start)
    elif "url" in entry:
        found = _of_url(entry, start)
    else:
        found = "It has neither a command nor a url."
    return found if isinstance(found, str) else _in_order(entry, {"command": command[0], **found})


def _of_command(entry: Entry, start: list[str]) -> Entry | str:
    args = entry.get("args", [])
    if not isinstance(entry["command"], str) or not isinstance(args, list):
        return "Its command is not text, or its args are not a list."
    return {"args": [*start, "--", entry["command"], *args]} | _without(entry, "command", "args")


def _of_url(entry: Entry, start: list[str]) -> Entry | str:
    """Return a remote server's entry. Its type and headers, and a URL that may hold a secret, move into ``env``."""
    reason = _why_not(entry)
    if reason is not None:
        return reason
    url, kind, headers = entry["url"], entry.get("type"), entry.get("headers", {})
    added = {f"{HEADER}{number}": f"{header}: {value}" for number, (header, value) in enumerate(headers.items(), 1)}
    args = [*start, *(word for variable in added for word in ("--header-env", variable))]
    if "headers" in entry and not headers:
        added[HEADER.rstrip("_")] = ""
    if kind:
        added[TYPE] = kind
    if _may_hold_secret(url):
        args += ["--url-env", URL]
        added[URL] = url
    else:
        args += ["--url", url]
    found: Entry = {"args": args} | _without(entry, "url", "type", "headers", "env")
    if "env" in entry or added:
        found["env"] = entry.get("env", {}) | added
    return found


def _why_not(entry: Entry) -> str | None:
    """Return why a remote server stays as it is, or None."""
    url, kind, headers, env = entry["url"], entry.get("type"), entry.get("headers", {}), entry.get("env", {})
    if not isinstance(url, str) or not isinstance(headers, dict) or not isinstance(env, dict):
        return "Its url is not text, or its headers or env are not an object."
    if not all(isinstance(value, str) and ":" not in header for header, value in headers.items()):
        return "A header is not text."
    if any(variable.startswith("SWITCHGEAR_MCP_") for variable in env):
        return "Its env has variables of the proxy already."
    login = next((key for key in _LOGINS if key in entry), None)
    if login is not None:
        return f"The client logs in to it ({login}), which the proxy can't do for it."
    if kind == "sse" or (not kind and url.partition("?")[0].rstrip("/").endswith("/sse")):
        return "It uses the former transport SSE, which the proxy doesn't have."
    return None if not kind or kind in _STREAMABLE else f"Its type {kind!r} is not known."


def _unwrapped_entry(_name: str, entry: Entry) -> Entry | str:
    """Return the entry without the proxy, from its args and env."""
    if not is_wrapped(entry):
        return "It doesn't run behind the proxy."
    args = entry["args"]
    words = args[args.index("mcp-proxy") + 3 :]
    if "--" in words:
        command, *rest = words[words.index("--") + 1 :] or [""]
        found = {"command": command} | ({"args": rest} if rest else {})
        return _in_order(entry, found | _without(entry, "command", "args"))
    env = dict(entry.get("env") or {})
    url = env.pop(URL, None) if "--url-env" in words else _after("--url", words)
    if not isinstance(url, str):
        return "Its args have neither a command nor a url."
    kind = env.pop(TYPE, None)
    names = sorted(
        (key for key in env if re.fullmatch(rf"{HEADER}[0-9]+", key)), key=lambda key: int(key[len(HEADER) :])
    )
    headers = dict(str(env.pop(key)).split(": ", 1) for key in names)
    had_headers = env.pop(HEADER.rstrip("_"), None) is not None
    found = ({"type": kind} if kind else {}) | {"url": url}
    found |= ({"headers": headers} if headers or had_headers else {}) | ({"env": env} if env else {})
    return found | _without(entry, "command", "args", "env", *found)


def _same_wrapped(name: str, former: Entry, entry: Entry) -> bool:
    """Return whether ``entry`` is ``former`` behind the proxy, however Switchgear is started."""
    args: list[str] = entry["args"]
    again = _wrapped_entry(name, former, [entry["command"], *args[: args.index("mcp-proxy")]])
    return again == entry


def _in_order(entry: Entry, found: Entry) -> Entry:
    """Return ``found`` with the keys in the order of ``entry``; the new ones come first."""
    return {key: found[key] for key in sorted(found, key=[*(key for key in found if key not in entry), *entry].index)}


def _without(entry: Entry, *keys: str) -> Entry:
    return {key: value for key, value in entry.items() if key not in keys}


def _after(option: str, words: Sequence[str]) -> str | None:
    return words[words.index(option) + 1] if option in words[:-1] else None


def _may_hold_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    return bool(parts.query or parts.username or parts.password)
