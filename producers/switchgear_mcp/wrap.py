"""Rewrite an MCP client's configuration, so that each server is started behind ``switchgear mcp-proxy``, and back.

Known are the formats of Claude Desktop, Claude Code, Cursor, Gemini CLI and Windsurf (``mcpServers``), VS Code (``servers``), Zed
(``context_servers``) and Codex (``mcp_servers``, in TOML). See :mod:`switchgear_mcp.wrapped_entry` for a server's entry.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from switchgear_mcp import wrapped_entry
from switchgear_mcp.names import plain_names
from switchgear_mcp.wrapped_entry import CONTAINERS, Entry, is_wrapped
from switchgear_schemas import json_file
from switchgear_schemas.json_file import JsonFileError

COMMAND: Final = ("switchgear",)
SUFFIX: Final = ".switchgear-backup"
_WAY_OUT: Final = "By hand, a server's command is switchgear, and its args are mcp-proxy --name NAME -- and its former command with its args."

Config = Mapping[str, Any]


class Finding(NamedTuple):
    """What a trial of a server showed: whether it will work behind the proxy, and a sentence about it."""

    works: bool
    text: str = ""


Examine = Callable[[Sequence[Entry]], Sequence[Finding]]
"""Tries servers. See :mod:`switchgear_mcp.examine`."""


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
        seen: By the names of wrapped servers, what their trial showed.
        guards: Whether a server of the file runs behind the proxy now.
    """

    path: Path
    changed: tuple[str, ...]
    left: tuple[Left, ...]
    backup: Path | None
    renamed: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    guards: bool = True


def wrapped(config: Config, command: Sequence[str] = COMMAND) -> dict[str, Any]:
    """Return a configuration whose servers run behind the proxy. Servers that can't, and those that do already, stay as they are.

    Args:
        config: The client's configuration.
        command: How to start Switchgear. Give an absolute path where the client doesn't have your PATH.
    """
    return _rewritten(config, lambda _shown, _name, plain, entry: wrapped_entry.wrapped(plain, entry, command))[0]


def unwrapped(config: Config) -> dict[str, Any]:
    """Return a configuration whose servers run without the proxy, from what their entries say. An empty ``args`` is left out."""
    return _rewritten(config, lambda _shown, _name, _plain, entry: wrapped_entry.unwrapped(entry))[0]


def wrap_file(
    path: Path, command: Sequence[str] = COMMAND, examine: Examine | None = None, options: Sequence[str] = ()
) -> Report:
    """Wrap the servers of a file. The former content is in a backup beside it, which :func:`unwrap_file` uses.

    Args:
        path: The file.
        command: How to start Switchgear.
        examine: Tries the servers. Those that would not work behind the proxy stay as they are. None: all work.
        options: More options of the proxy.

    Raises:
        JsonFileError: The file can't be read, understood or written. It is unchanged.
    """
    file = json_file.read(path, way_out=_WAY_OUT)
    _check_servers(file.path, file.value)
    entries = [entry for _, _, entry in _servers(file.value) if isinstance(entry, dict)]
    new = [
        entry
        for entry in entries
        if not is_wrapped(entry) and not isinstance(wrapped_entry.wrapped("x", entry, command), str)
    ]
    findings = {id(entry): each for entry, each in zip(new, () if examine is None else examine(new), strict=False)}
    renamed, seen = dict[str, str](), dict[str, str]()
    given = iter(entries)

    def rewrite(shown: str, name: str, plain: str, entry: Entry) -> Entry | str:
        finding = findings.get(id(next(given)), Finding(works=True))
        found = wrapped_entry.wrapped(plain, entry, command, options) if finding.works else finding.text
        if not isinstance(found, str):
            if finding.text:
                seen[shown] = finding.text
            if name != plain:
                renamed[name] = plain
        return found

    value, changed, left = _rewritten(file.value, rewrite)
    backup = _backup(file.path)
    if not changed:
        guards = any(map(is_wrapped, entries))
        return Report(file.path, (), left, backup if backup.exists() else None, guards=guards)
    data = file.rendered(value)
    if not (backup.exists() and any(is_wrapped(entry) for _, _, entry in _servers(file.value))):
        # Without wrapped servers in the file, an older backup is of no use any more.
        try:
            json_file.write(backup, file.data, like=file.path)
        except OSError as error:
            raise JsonFileError(
                f"{file.path} was not changed, because its backup {backup} can't be written: {error.strerror}."
            ) from None
    file.replace(data)
    return Report(file.path, changed, left, backup, renamed, seen)


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

    def restored(_shown: str, _name: str, _plain: str, entry: Entry) -> Entry | str:
        former = before.get(next(entries))
        if isinstance(former, dict) and is_wrapped(entry) and wrapped_entry.is_same(former, entry):
            return copy.deepcopy(former)
        return wrapped_entry.unwrapped(entry)

    value, changed, left = _rewritten(file.value, restored)
    if not changed:
        return Report(file.path, (), left, backup if backup.exists() else None)
    as_it_was = old is not None and old.value == value and old.rendered(file.value) == file.data
    file.replace(old.data if old is not None and as_it_was else file.rendered(value))
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
    for key in CONTAINERS:
        if isinstance(config.get(key), dict):
            yield key, config[key]
    projects = config.get("projects")
    for folder, project in projects.items() if isinstance(projects, dict) else ():
        if isinstance(project, dict) and isinstance(project.get("mcpServers"), dict):
            yield f"projects.{folder}", project["mcpServers"]


def _rewritten(
    config: Config, rewrite: Callable[[str, str, str, Entry], Entry | str]
) -> tuple[dict[str, Any], tuple[str, ...], tuple[Left, ...]]:
    """Return a copy with other entries, the names of those that changed, and the others with the reason.

    Args:
        config: The configuration.
        rewrite: Called with a server's name as it is shown, its name, its name in circuits and its entry.
    """
    value = copy.deepcopy(dict(config))
    changed, left = [], []
    for where, servers in _containers(value):
        plain = plain_names(servers)
        for name, entry in servers.items():
            shown = f"{name} ({where.removeprefix('projects.')})" if where.startswith("projects.") else name
            found = rewrite(shown, name, plain[name], entry) if isinstance(entry, dict) else "It is not an object."
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
            hint=f"Servers are in an object {', '.join(CONTAINERS[:-1])} or {CONTAINERS[-1]}.",
        )


def _backup(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)
