"""What servers said last: for clients that come while a server is down, or while it still starts."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_mcp import message as rpc
from switchgear_mcp.message import Raw
from switchgear_mcp.servers import CommandServer, Server

log: Final = logging.getLogger("switchgear.mcp_proxy")
_MOST_ANSWERS: Final = 1_000
_MOST_BYTES: Final = 4 * 1_048_576
_ON_DISK: Final = ("initialize", "tools/list")
"""The methods whose last answers are there after a restart of the proxy, too."""


def default_folder() -> Path | None:
    """Return the folder of the files, None if the user has no home."""
    root = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        return (Path(root) if root.startswith("/") else Path.home() / ".cache") / "switchgear" / "mcp"
    except RuntimeError:
        return None


class Known:
    """The last results of each server, by method.

    Args:
        servers: The servers.
        folder: Keeps them for the next process, one file for each server. None: nothing is kept. A server that gets headers of
            clients has no file, because each of them may see another list.
    """

    def __init__(self, servers: Sequence[Server], folder: Path | None = None) -> None:
        self._files: dict[str, Path] = {}
        for server in servers:
            if folder is not None and (isinstance(server, CommandServer) or not server.forward_headers):
                self._files[server.name] = folder / f"{_identity(server)}.json"
        self._found = BoundedDict[tuple[str, str], Raw](_MOST_ANSWERS)
        self._read: set[str] = set()

    def get(self, server: str, method: str) -> Raw | None:
        """Return the last result of a server, None if it isn't known."""
        self._load(server)
        return self._found.get((server, method))

    def keep(self, server: str, method: str, result: Raw) -> None:
        """Remember a result."""
        self._load(server)
        former = self._found.get((server, method))
        self._found[server, method] = result
        if method in _ON_DISK and (former is None or bytes(former) != bytes(result)):
            self._store(server)

    def _load(self, server: str) -> None:
        if server in self._read or server not in self._files:
            return
        self._read.add(server)
        try:
            with self._files[server].open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError:
            return
        if len(data) <= _MOST_BYTES:
            found = rpc.members(Raw(data))
            self._found.update({(server, method): found[method] for method in _ON_DISK if method in found})

    def _store(self, server: str) -> None:
        path = self._files.get(server)
        if path is None:
            return
        data = rpc.encoded(
            {method: self._found[server, method] for method in _ON_DISK if (server, method) in self._found}
        )
        if len(data) > _MOST_BYTES:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            number, name = tempfile.mkstemp(dir=path.parent)  # for the user alone
            with os.fdopen(number, "wb") as file:
                file.write(data)
            Path(name).replace(path)
        except OSError as error:
            log.debug("%s is not kept: %s", path, error)


def _identity(server: Server) -> str:
    """Return a name for a server's file, which shows nothing of it."""
    words = (
        [server.name, server.command, *server.args, server.folder or ""]
        if isinstance(server, CommandServer)
        else [server.name, server.url]
    )
    return hashlib.sha256(json.dumps(words).encode("utf-8", "surrogateescape")).hexdigest()[:32]
