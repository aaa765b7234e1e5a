"""Rewrite an MCP client's configuration, so that each server is started behind ``switchgear mcp-proxy``, and back.

Known are the formats of Claude Desktop, Claude Code, Cursor, Gemini CLI and Windsurf (``mcpServers``), VS Code (``servers``) and Zed
(``context_servers``). Secrets stay out of arguments, because all users of a machine can see those: headers and addresses go into
``env``, which the client's file keeps as secret as before. Of variables, arguments have the names alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from switchgear_mcp.names import plain_names
from switchgear_schemas import json_file
from switchgear_schemas.json_file import JsonFileError

COMMAND: Final = ("switchgear",)
HEADER: Final = "SWITCHGEAR_MCP_HEADER_"
ADDRESSES: Final = {
    "url": "SWITCHGEAR_MCP_URL",
    "httpUrl": "SWITCHGEAR_MCP_HTTP_URL",
    "serverUrl": "SWITCHGEAR_MCP_SERVER_URL",
}
"""The keys of an address, of most clients, Gemini CLI and Windsurf, with the variable that holds it when it is wrapped."""
TYPE: Final = "SWITCHGEAR_MCP_TYPE"
"""Holds the ``type`` of a remote server, which ``unwrapped`` restores. The proxy doesn't read it."""
SUFFIX: Final = ".switchgear-backup"
_CONTAINERS: Final = ("mcpServers", "servers", "context_servers")
_STREAMABLE: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
_LOGINS: Final = ("oauth", "auth", "authProviderType", "headersHelper")
"""Keys of remote servers that the client logs in to. The proxy could not."""
_WAY_OUT: Final = "By hand, a server's command is switchgear, and its args are mcp-proxy --name NAME -- and its former command with its args."

Config = Mapping[str, Any]
Entry = dict[str, Any]
Examine = Callable[[Sequence[Entry]], Sequence[str | None]]
"""Returns for each server why it would not work behind the proxy, or None. See :mod:`switchgear_mcp.examine`."""


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
        renamed: The names in circuits of wrapped servers that have other names there.
    """

    path: Path
    changed: tuple[str, ...]
    left: tuple[Left, ...]
    backup: Path | None
    renamed: Mapping[str, str] = field(default_factory=dict)


def wrapped(config: Config, command: Sequence[str] = COMMAND) -> dict[str, Any]:
    """Return a configuration whose servers run behind the proxy. Servers that can't, and those that do already, stay as they are.

    Args:
        config: The client's configuration.
        command: How to start Switchgear. Give an absolute path where the client doesn't have your PATH.
    """
    return _rewritten(config, lambda _name, plain, entry: _wrapped_entry(plain, entry, command))[0]


def unwrapped(config: Config) -> dict[str, Any]:
    """Return a configuration whose servers run without the proxy, from what their entries say. An empty ``args`` is left out."""
    return _rewritten(config, lambda _name, _plain, entry: _unwrapped_entry(entry))[0]


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


def wrap_file(path: Path, command: Sequence[str] = COMMAND, examine: Examine | None = None) -> Report:
    """Wrap the servers of a file. The former content is in a backup beside it, which :func:`unwrap_file` uses.

    Args:
        path: The file.
        command: How to start Switchgear.
        examine: Finds servers that would not work behind the proxy. They stay as they are. None: there are none.

    Raises:
        JsonFileError: The file can't be read, understood or written. It is unchanged.
    """
    file = json_file.read(path, way_out=_WAY_OUT)
    _check_servers(file.path, file.value)
    entries = [entry for _, _, entry in _servers(file.value) if isinstance(entry, dict)]
    new = [
        entry for entry in entries if not is_wrapped(entry) and not isinstance(_wrapped_entry("x", entry, command), str)
    ]
    reasons = {id(entry): why for entry, why in zip(new, () if examine is None else examine(new), strict=False)}
    renamed: dict[str, str] = {}
    given = iter(entries)

    def rewrite(name: str, plain: str, entry: Entry) -> Entry | str:
        found = reasons.get(id(next(given))) or _wrapped_entry(plain, entry, command)
        if not isinstance(found, str) and name != plain:
            renamed[name] = plain
        return found

    value, changed, left = _rewritten(file.value, rewrite)
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
    return Report(file.path, changed, left, backup, renamed)


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
    entries = iter([(where, name) for where, name, entry in _servers(file.value) if isinstance(entry, dict)])

    def restored(_name: str, _plain: str, entry: Entry) -> Entry | str:
        former = before.get(next(entries))
        if isinstance(former, dict) and is_wrapped(entry) and _same_wrapped(former, entry):
            return copy.deepcopy(former)
        return _unwrapped_entry(entry)

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
    config: Config, rewrite: Callable[[str, str, Entry], Entry | str]
) -> tuple[dict[str, Any], tuple[str, ...], tuple[Left, ...]]:
    """Return a copy with other entries, the names of those that changed, and the others with the reason.

    Args:
        config: The configuration.
        rewrite: Called with a server's name, its name in circuits and its entry.
    """
    value = copy.deepcopy(dict(config))
    changed, left = [], []
    for where, servers in _containers(value):
        plain = plain_names(servers)
        for name, entry in servers.items():
            shown = f"{name} ({where.removeprefix('projects.')})" if where.startswith("projects.") else name
            found = rewrite(name, plain[name], entry) if isinstance(entry, dict) else "It is not an object."
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


def address_of(entry: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the key and the value of a remote server's address; None if it has none."""
    return next(((key, entry[key]) for key in ADDRESSES if key in entry), None)


def _wrapped_entry(plain: str, entry: Entry, command: Sequence[str]) -> Entry | str:
    """Return the entry behind the proxy, or why it stays as it is."""
    if is_wrapped(entry):
        return _with_new_variables(entry)
    start = [*command[1:], "mcp-proxy", "--name", plain]
    address = address_of(entry)
    if "command" in entry:
        found = _of_command(entry, start)
    elif address is not None:
        found = _of_address(entry, *address, start)
    else:
        found = "It has neither a command nor a url."
    return found if isinstance(found, str) else _in_order(entry, {"command": command[0], **found})


def _of_command(entry: Entry, start: list[str]) -> Entry | str:
    args, env = entry.get("args", []), entry.get("env") or {}
    if not isinstance(entry["command"], str) or not isinstance(args, list):
        return "Its command is not text, or its args are not a list."
    if not isinstance(env, dict):
        return "Its env is not an object."
    return {"args": [*start, *_passed(env), "--", entry["command"], *args]} | _without(entry, "command", "args")


def _passed(env: Mapping[str, Any]) -> list[str]:
    """Return the options that pass the entry's variables on to the server, by their names."""
    return [f"--env={name}" for name in env if name and "=" not in name]


def _with_new_variables(entry: Entry) -> Entry | str:
    """Return a wrapped entry that passes on the variables that were added to it since. Those of Switchgear are for the proxy."""
    args, env = entry["args"], entry.get("env")
    start = args.index("mcp-proxy") + 3
    end = args.index("--", start) if "--" in args[start:] else None
    given = set() if end is None else set(args[:end])
    new = (
        [each for each in _passed(env) if each not in given and not each.startswith("--env=SWITCHGEAR_")]
        if end is not None and isinstance(env, dict)
        else []
    )
    return entry | {"args": [*args[:end], *new, *args[end:]]} if new else "It runs behind the proxy already."


def _of_address(entry: Entry, key: str, url: Any, start: list[str]) -> Entry | str:
    """Return a remote server's entry. Its address, type and headers move into ``env``."""
    reason = _why_not(entry, url)
    if reason is not None:
        return reason
    kind, headers = entry.get("type"), entry.get("headers", {})
    added = {f"{HEADER}{number}": f"{header}: {value}" for number, (header, value) in enumerate(headers.items(), 1)}
    args = [*start, *(word for variable in added for word in ("--header-env", variable))]
    if "headers" in entry and not headers:
        added[HEADER.rstrip("_")] = ""
    if kind:
        added[TYPE] = kind
    args += ["--url-env", ADDRESSES[key]]
    added[ADDRESSES[key]] = url
    found: Entry = {"args": args} | _without(entry, key, "type", "headers", "env")
    return found | {"env": entry.get("env", {}) | added}


def _why_not(entry: Entry, url: Any) -> str | None:
    """Return why a remote server stays as it is, or None."""
    kind, headers, env = entry.get("type"), entry.get("headers", {}), entry.get("env", {})
    if (
        sum(key in entry for key in ADDRESSES) > 1
        or not isinstance(url, str)
        or not isinstance(headers, dict)
        or not isinstance(env, dict)
    ):
        return "Its url is not one text, or its headers or env are not an object."
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


def _unwrapped_entry(entry: Entry) -> Entry | str:
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
    variable = _after("--url-env", words)
    key = next((key for key, known in ADDRESSES.items() if known == variable), "url")
    url = env.pop(variable, None) if variable is not None else _after("--url", words)
    if not isinstance(url, str):
        return "Its args have neither a command nor a url."
    kind = env.pop(TYPE, None)
    names = sorted(
        (key for key in env if re.fullmatch(rf"{HEADER}[0-9]+", key)), key=lambda key: int(key[len(HEADER) :])
    )
    headers = dict(str(env.pop(key)).split(": ", 1) for key in names)
    had_headers = env.pop(HEADER.rstrip("_"), None) is not None
    found = ({"type": kind} if kind else {}) | {key: url}
    found |= ({"headers": headers} if headers or had_headers else {}) | ({"env": env} if env else {})
    return found | _without(entry, "command", "args", "env", *found)


def _same_wrapped(former: Entry, entry: Entry) -> bool:
    """Return whether ``entry`` is ``former`` behind the proxy, however Switchgear is started."""
    args: list[str] = entry["args"]
    place = args.index("mcp-proxy")
    again = _wrapped_entry(args[place + 2], former, [entry["command"], *args[:place]])
    return again == entry


def _in_order(entry: Entry, found: Entry) -> Entry:
    """Return ``found`` with the keys in the order of ``entry``; the new ones come first."""
    return {key: found[key] for key in sorted(found, key=[*(key for key in found if key not in entry), *entry].index)}


def _without(entry: Entry, *keys: str) -> Entry:
    return {key: value for key, value in entry.items() if key not in keys}


def _after(option: str, words: Sequence[str]) -> str | None:
    return words[words.index(option) + 1] if option in words[:-1] else None
