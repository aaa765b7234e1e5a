"""The entries of a server's list that can be shown to a client: one bad entry must not hide the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp_types import methods
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from switchgear.runtime.throttled_log import Throttle
from switchgear_mcp.message_size import DEFAULT_MIB, MIB
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.visible import name as visible_name

log: Final = logging.getLogger("switchgear.mcp_proxy")
_LISTS: Final[Mapping[str, tuple[str, str, type[BaseModel]]]] = {
    "tools/list": ("tools", "tool", types.Tool),
    "prompts/list": ("prompts", "prompt", types.Prompt),
    "resources/list": ("resources", "resource", types.Resource),
    "resources/templates/list": ("resourceTemplates", "resource template", types.ResourceTemplate),
}
_VERSION: Final = HANDSHAKE_PROTOCOL_VERSIONS[-1]
_NAMED: Final = frozenset({"tools/list", "prompts/list"})
"""Lists whose entries are used by their names."""
_ONCE_S: Final = 24 * 3600.0
_SHOWN: Final = 60
_AT_ONCE: Final = 100
"""Entries that are checked before others have their turn. One takes some 50 µs."""


class Listing:
    """Sorts out the entries that can't be used, and warns once of those of each list.

    Args:
        most_characters: The longest name of a tool, with the server's name and what stands before it in its circuit.
    """

    def __init__(self, most_characters: int = MAX_NAME_LENGTH) -> None:
        self._most = most_characters
        self._told = Throttle(_ONCE_S)

    async def sorted_out(self, server: str, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request with the entries that clients can use, if it was for a list.

        Args:
            server: The server's name.
            method: The method of the request.
            result: What the server answered.
        """
        if method not in _LISTS:
            return result
        key, kind, model = _LISTS[method]
        given = result.get(key)
        found: list[dict[str, Any]] = []
        wrong: list[tuple[str, str]] = []
        seen: set[str] = set()
        for number, entry in enumerate(given if isinstance(given, list) else []):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)  # other clients have their turn
            name = _name_of(entry)
            why = _not_valid(method, key, model, entry) or (
                self._bad_name(server, name, seen) if method in _NAMED else ""
            )
            if why:
                wrong.append((name, why))
            else:
                seen.add(name)
                found.append(entry)
        if wrong:
            self._warn(server, kind, wrong)
        return {**result, key: found}

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


def _not_valid(method: str, key: str, model: type[BaseModel], entry: Any) -> str:
    """Return why an entry is not what the protocol says, or an empty text."""
    try:
        model.model_validate(entry, by_name=False)
        methods.validate_server_result(method, _VERSION, {key: [entry]})
    except ValidationError as error:
        found = (each["loc"] for each in error.errors(include_input=False))
        places = {".".join(map(str, place[2:] if place[:1] == (key,) else place)) or "all of it" for place in found}
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


@dataclass(frozen=True, slots=True)
class Inbound:
    """What one proxy lets in of the messages of all servers.

    Attributes:
        most: The most that one message may cost, see :mod:`switchgear_mcp.message_size`.
        listing: Sorts out the entries of lists.
    """

    most: int = DEFAULT_MIB * MIB
    listing: Listing = field(default_factory=Listing)
