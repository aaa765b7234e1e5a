"""The entries of a server's list that can be shown to a client: one bad entry must not hide the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import mcp_types as types
from pydantic import BaseModel, ValidationError

from switchgear.runtime.throttled_log import Throttle
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.visible import name as visible_name

log: Final = logging.getLogger("switchgear.mcp_proxy")
_KINDS: Final[Mapping[str, tuple[str, type[BaseModel]]]] = {
    "tools": ("tool", types.Tool),
    "prompts": ("prompt", types.Prompt),
    "resources": ("resource", types.Resource),
    "resourceTemplates": ("resource template", types.ResourceTemplate),
}
_NAMED: Final = frozenset({"tools", "prompts"})
"""Lists whose entries are used by their names."""
_ONCE_S: Final = 24 * 3600.0
_SHOWN: Final = 60


class Listing:
    """Sorts out the entries that can't be used, and warns once of those of each list.

    Args:
        most_characters: The longest name of a tool, with the server's name and what stands before it in its circuit.
    """

    def __init__(self, most_characters: int = MAX_NAME_LENGTH) -> None:
        self._most = most_characters
        self._told = Throttle(_ONCE_S)

    def usable(self, server: str, key: str, entries: Any) -> list[dict[str, Any]]:
        """Return the entries of a list that clients can use.

        Args:
            server: The server's name.
            key: ``tools``, ``prompts``, ``resources`` or ``resourceTemplates``.
            entries: What the server listed.
        """
        kind, model = _KINDS[key]
        found: list[dict[str, Any]] = []
        wrong: list[tuple[str, str]] = []
        seen: set[str] = set()
        for entry in entries if isinstance(entries, list) else []:
            name = _name_of(entry)
            why = _not_valid(model, entry) or (self._bad_name(server, name, seen) if key in _NAMED else "")
            if why:
                wrong.append((name, why))
            else:
                seen.add(name)
                found.append(entry)
        if wrong:
            self._warn(server, kind, wrong)
        return found

    def _bad_name(self, server: str, name: str, seen: set[str]) -> str:
        if not name:
            return "it has no name"
        if len(f"mcp:{server}:{name}") > self._most:
            return f"its name has {len(name):,} characters"
        if visible_name(name) != name:
            return "its name has invisible characters"
        return "its name is listed twice" if name in seen else ""

    def _warn(self, server: str, kind: str, wrong: Sequence[tuple[str, str]]) -> None:
        (name, why), more = wrong[0], len(wrong) - 1
        if self._told.admit((server, kind, name[:_SHOWN], why, more)) is None:
            return
        shown = visible_name(name[:_SHOWN]) + ("…" if len(name) > _SHOWN else "")
        others = f" So are {more} more." if more else ""
        log.warning('The %s "%s" of the server %s is left out: %s.%s', kind, shown, server, why, others)


def _not_valid(model: type[BaseModel], entry: Any) -> str:
    """Return why an entry is not what the protocol says, or an empty text."""
    try:
        model.model_validate(entry, by_name=False)
    except ValidationError as error:
        places = {".".join(map(str, each["loc"])) or "all of it" for each in error.errors(include_input=False)}
        return f"wrong: {visible_name(', '.join(sorted(places)[:3]))[:200]}"
    except RecursionError:
        return "it is nested too deeply"
    return ""


def _name_of(entry: Any) -> str:
    """Return the name of an entry, as far as it has one."""
    if not isinstance(entry, Mapping):
        return ""
    found: Iterable[Any] = (entry.get(key) for key in ("name", "uri", "uriTemplate"))
    return next((each for each in found if isinstance(each, str)), "")
