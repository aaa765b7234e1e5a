"""The id of a circuit, and what it says.

A tool's own circuit has the tool's name as its id. The others have ``name|user=…``, ``name|session=…``, ``name|tenant=…``,
``name|family`` or ``name@target``. A tool may have any name, also one that looks like such an id. So a name is encoded where it has a mark, and no two
circuits have the same id. All other names stay as they are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from switchgear_schemas.enums import MAX_NAME_LENGTH, CircuitScope

MAX_CIRCUIT_ID_LENGTH: Final = 6 * MAX_NAME_LENGTH + 16
"""Characters: a name and whose it is, each with three characters in place of one, and the mark between them."""

_FAMILY: Final = "|family"
_OWNER: Final = re.compile(r"\|(user|session|tenant)=")
_OWNERS: Final[dict[str, CircuitScope]] = {"user": "user", "session": "session", "tenant": "tenant"}
_TARGET: Final = re.compile(r"@([^:@]*)\Z")
_IN_NAME: Final = re.compile(r"\|(?=(?:user|session|tenant)=|family\Z)|%(?=25|7C|40|3A)")
_IN_TOOL: Final = re.compile(rf"{_IN_NAME.pattern}|@(?=[^:]*\Z)")
"""Only a tool's own id can look like a target's. ``mcp:@scope/server:tool`` can't, because no colon follows the ``@`` of a target."""
_IN_TARGET: Final = re.compile(r"[|@:]|%(?=25|7C|40|3A)")
_ENCODED: Final = re.compile(r"%(25|7C|40|3A)")


class CircuitName(NamedTuple):
    """What a circuit's id says."""

    name: str
    """Name of the tool, or of the family."""
    scope: CircuitScope = "tool"
    whose: str = ""
    """The user, the session, the tenant or the target. Empty for the circuits of tools and families."""


def circuit_id(name: str, scope: CircuitScope = "tool", whose: str = "") -> str:
    """Return the id of a circuit. :func:`read_circuit_id` is the other way.

    Args:
        name: Name of the tool. For the scope ``family``, of the family.
        scope: What the circuit is kept for.
        whose: The user, the session, the tenant or the target. Nothing for the scopes ``tool`` and ``family``.
    """
    if scope == "tool":
        return _IN_TOOL.sub(_encoded, name) if "|" in name or "%" in name or "@" in name else name
    if "|" in name or "%" in name:
        name = _IN_NAME.sub(_encoded, name)
    if scope == "family":
        return f"{name}{_FAMILY}"
    return f"{name}@{_IN_TARGET.sub(_encoded, whose)}" if scope == "target" else f"{name}|{scope}={whose}"


@lru_cache(maxsize=65_536)
def tool_circuit(tool: str) -> str:
    """Return the id of a tool's own circuit, fast."""
    return circuit_id(tool)


def read_circuit_id(circuit_id: str) -> CircuitName:
    """Return what an id says. Every text says something."""
    if "|" in circuit_id:
        found = _OWNER.search(circuit_id)  # the first one, because an encoded name has none
        if found is not None:
            whose = circuit_id[found.end() :]
            return CircuitName(_plain(circuit_id[: found.start()]), _OWNERS[found[1]], whose)
        if circuit_id.endswith(_FAMILY):
            return CircuitName(_plain(circuit_id.removesuffix(_FAMILY)), "family")
    found = _TARGET.search(circuit_id) if "@" in circuit_id else None
    if found is not None:
        return CircuitName(_plain(circuit_id[: found.start()]), "target", _plain(found[1]))
    return CircuitName(_plain(circuit_id))


def _encoded(mark: re.Match[str]) -> str:
    return f"%{ord(mark[0]):02X}"


def _plain(text: str) -> str:
    return _ENCODED.sub(lambda code: chr(int(code[1], 16)), text) if "%" in text else text
