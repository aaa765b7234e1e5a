"""Names of tools, prompts and resources: of the servers, and those that clients know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

MOST_CHARACTERS: Final = 64
"""Of a server's name in circuits."""
_MOST_URIS: Final = 100_000
_PLAIN: Final = re.compile(rf"[A-Za-z0-9._][A-Za-z0-9._-]{{0,{MOST_CHARACTERS - 1}}}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]+")


def is_plain(name: str) -> bool:
    """Return whether a server can have this name in circuits."""
    return _PLAIN.fullmatch(name) is not None


def plain_names(given: Iterable[str]) -> dict[str, str]:
    """Return a name in circuits for each server of a file, all different. ``My Server (dev)`` becomes ``My-Server-dev``.

    Clients allow any text as a name.
    """
    names = list(given)
    found = {name: name for name in names if is_plain(name)}
    taken = set(found)
    for name in names:
        if name in found:
            continue
        short = _OTHERS.sub("-", name).strip("-.")[: MOST_CHARACTERS - 4] or "server"
        number, free = 1, short
        while free in taken:
            number += 1
            free = f"{short}-{number}"
        found[name] = free
        taken.add(free)
    return found


class Names:
    """Translates names. With one server they are the same; with several, the server's name is in front.

    Args:
        servers: The names of the servers.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self._only = servers[0] if len(servers) == 1 else None
        # The longest first: with servers "git" and "git_hub", "git_hub_issues" is of the second.
        self._servers = sorted(servers, key=len, reverse=True)
        self._owners: dict[str, str] = {}

    def outer(self, server: str, name: str) -> str:
        """Return the name that clients know."""
        return name if self._only is not None else f"{server}_{name}"

    def inner(self, name: str) -> tuple[str, str] | None:
        """Return the server of a name that clients know and the name there, None if it is of none."""
        if self._only is not None:
            return self._only, name
        found = next((server for server in self._servers if name.startswith(f"{server}_")), None)
        return None if found is None else (found, name[len(found) + 1 :])

    def circuit(self, name: str) -> str:
        """Return the name of a tool's circuit."""
        found = self.inner(name)
        return name if found is None else f"mcp:{found[0]}:{found[1]}"

    def owns(self, server: str, uri: str) -> None:
        """Remember that a server has listed a resource or a template."""
        if len(self._owners) >= _MOST_URIS:
            self._owners.clear()
        self._owners[uri] = server

    def owner_of(self, uri: str) -> str | None:
        """Return the server that has a resource, None if it isn't known."""
        return self._only or self._owners.get(uri)
