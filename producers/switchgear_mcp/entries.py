"""The entries of a server's list that can be shown: a tool needs a name that a circuit can have."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from switchgear.runtime.throttled_log import Throttle
from switchgear_mcp import message as rpc
from switchgear_mcp.message import Raw
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.visible import name as visible_name

log: Final = logging.getLogger("switchgear.mcp_proxy")
_KINDS: Final[dict[str, tuple[str, dict[str, type]]]] = {
    "tools/list": ("tool", {"name": str, "inputSchema": dict}),
    "prompts/list": ("prompt", {"name": str}),
    "resources/list": ("resource", {"name": str, "uri": str}),
    "resources/templates/list": ("resource template", {"name": str, "uriTemplate": str}),
}
"""By method, what an entry is called, and what it must have."""
_TEXTS: Final = ("title", "description")
_ONCE_S: Final = 24 * 3600.0
_SHOWN: Final = 60


class Entries:
    """Sorts out the entries that can't be used, and warns once of those of each list."""

    def __init__(self) -> None:
        self._told = Throttle(_ONCE_S)

    def usable(self, server: str, method: str, entries: Iterable[Raw], *, strict: bool) -> list[tuple[str | None, Raw]]:
        """Return the entries that can be shown, with their names.

        Args:
            server: The server's name.
            method: The method of the list.
            entries: The entries as they came.
            strict: Leave out what a client would refuse the whole list for. Of several servers, one must not hide the others.
        """
        kind, needed = _KINDS[method]
        found: list[tuple[str | None, Raw]] = []
        wrong: list[tuple[str, str]] = []
        for entry in entries:
            fields = rpc.members(entry)
            name = rpc.plain(fields.get("name"))
            why = _malformed(fields, needed) if strict else ""
            if not why and method == "tools/list" and isinstance(name, str):
                why = _bad_name(server, name)
            if why:
                wrong.append((name if isinstance(name, str) else "", why))
            else:
                found.append((name if isinstance(name, str) else None, entry))
        if wrong:
            self._warn(server, kind, wrong)
        return found

    def _warn(self, server: str, kind: str, wrong: Sequence[tuple[str, str]]) -> None:
        (name, why), more = wrong[0], len(wrong) - 1
        if self._told.admit((server, kind, name[:_SHOWN], why, more)) is None:
            return
        shown = visible_name(name[:_SHOWN]) + ("…" if len(name) > _SHOWN else "")
        others = f" So are {more} more." if more else ""
        log.warning('The %s "%s" of the server %s is left out: %s.%s', kind, shown, server, why, others)


def _malformed(fields: dict[str, Raw], needed: dict[str, type]) -> str:
    if not fields:
        return "wrong: all of it"
    wrong = [name for name, kind in needed.items() if not isinstance(rpc.plain(fields.get(name)), kind)]
    wrong += [name for name in _TEXTS if name in fields and not isinstance(rpc.plain(fields[name]), str)]
    return f"wrong: {', '.join(wrong)}" if wrong else ""


def _bad_name(server: str, name: str) -> str:
    if len(f"mcp:{server}:{name}") > MAX_NAME_LENGTH:
        return f"its name has {len(name):,} characters"
    return "its name has invisible characters" if visible_name(name) != name else ""
