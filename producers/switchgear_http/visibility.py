"""What a client may learn of the circuits, which all tenants share. The gateway and the HTTP API have this one rule.

* A client of all tenants sees the whole records of the tools that its token covers, and of their servers.
* A client of one tenant sees those of the tools that its token lists, or else of the tools that the tenant has *named*: it has called
  them, or it asks about them by their whole names. So it never learns a name that only another tenant uses.
* Of such a circuit it sees the state, the rule and the times. Counts, rates, errors, reasons, names of operators and of processes belong to all
  tenants. It sees no circuits of users, sessions and targets, because a record doesn't say whose they are, nor of other tenants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, get_args

from switchgear.policies.glob import is_glob, matches
from switchgear_http.principal import Principal
from switchgear_schemas.enums import CircuitScope, CircuitState
from switchgear_schemas.families import DEFAULT_PATTERN, family_of

_WILDCARD: Final = re.compile(r"[*?\[]")
_SHARED: Final[frozenset[CircuitScope]] = frozenset({"tool", "family"})
"""Circuits that belong to no user, session or target."""
TENANT_FIELDS: Final = frozenset(
    {
        "circuit_id", "tool_name", "family", "scope", "state", "previous_state", "version", "generation", "cause", "changed_at",
        "open_until", "attempt", "admitted_share", "leases", "permits_left", "mode", "fallback", "target", "overdue_after_ms",
        "stands_until", "last_opened_at", "last_closed_at", "last_error_class",
    }
)  # fmt: skip
"""What a tenant sees of a record. A field that is added later stays hidden until it is added here."""
_CAUSE_FIELDS: Final = frozenset({"rule", "threshold"})
"""What it sees of a cause: which rule, and its limit in the policy. The rest is measured over all tenants' calls, or names a person."""
CIRCUITS: Final = {
    "type": "object",
    "required": ["circuits"],
    "properties": {
        "circuits": {
            "type": "object",
            "description": "The records of the fleet's circuits, by id.",
            "additionalProperties": {
                "type": "object",
                "required": ["circuit_id", "tool_name", "scope", "state", "version", "generation", "changed_at"],
                "properties": {
                    "circuit_id": {"type": "string"},
                    "tool_name": {"type": "string"},
                    "scope": {"enum": list(get_args(CircuitScope))},
                    "state": {"enum": list(get_args(CircuitState))},
                    "version": {"type": "integer"},
                    "generation": {"type": "integer"},
                    "changed_at": {"type": "string"},
                },
            },
        },
        "version": {"type": "string", "description": "At a gateway: names the last change."},
        "checked_at": {"type": "string", "description": "At the API: the time of the answer."},
        "problems": {
            "type": "array",
            "items": {"type": "object"},
            "description": "At the API: what does not work, so that the circuits may be old.",
        },
        "local_circuits": {
            "type": "array",
            "items": {"type": "object"},
            "description": "At the API: those that processes opened on their own evidence.",
        },
        "local_within_s": {"type": "number", "description": "At the API: how long ago they may have refused a call."},
    },
}
"""The JSON Schema of the answer to ``GET /v1/circuits``, which every server with that route gives."""


@dataclass(frozen=True, slots=True)
class Named:
    """Tools that a tenant has named, and their families."""

    tools: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tools: Iterable[str], family_pattern: str = DEFAULT_PATTERN) -> Named:
        """Return the tools with their families."""
        names = frozenset(tools)
        families = (family_of(name, family_pattern) for name in names)
        return cls(names, frozenset(each for each in families if each is not None))


NOTHING_NAMED: Final = Named()


@dataclass(frozen=True, slots=True)
class Sight:
    """Which circuits one client sees, and what of each.

    Args:
        allowed: Globs of the token's tools. Empty: all.
        tenant: The token's tenant. None: all.
        named: What the tenant has named. It counts if there is a tenant, and the token lists no tools.
        emitter_id: The client's process. A tenant's client sees this process's probe leases only.
        family_pattern: How the name of a tool tells its family.
    """

    allowed: tuple[str, ...] = ()
    tenant: str | None = None
    named: Named = NOTHING_NAMED
    emitter_id: str = ""
    family_pattern: str = DEFAULT_PATTERN

    @classmethod
    def of(cls, principal: Principal, named: Named = NOTHING_NAMED, family_pattern: str = DEFAULT_PATTERN) -> Self:
        """Return what a client sees."""
        by_name = principal.tenant is not None and not principal.tools
        return cls(
            principal.tools, principal.tenant, named if by_name else NOTHING_NAMED, family_pattern=family_pattern
        )

    @property
    def by_name(self) -> bool:
        """Whether the client sees only what its tenant has named."""
        return self.tenant is not None and not self.allowed

    def sees_tool(self, tool: str) -> bool:
        """Return whether the client may know of a tool."""
        if self.by_name:
            return tool in self.named.tools
        return not self.allowed or any(matches(glob, tool) for glob in self.allowed)

    def sees_family(self, family: str) -> bool:
        """Return whether the client may know of a family: of one of its tools at least."""
        if self.by_name:
            return family in self.named.families
        return not self.allowed or any(covers_family(glob, family, self.family_pattern) for glob in self.allowed)

    def sees_circuit(self, name: str, scope: CircuitScope, whose: str = "") -> bool:
        """Return whether the client sees a circuit.

        Args:
            name: Name of the tool, or of the family.
            scope: What the circuit is for.
            whose: The tenant, if the scope is ``tenant``.
        """
        if self.tenant is not None and scope not in _SHARED and (scope, whose) != ("tenant", self.tenant):
            return False
        return self.sees_family(name) if scope == "family" else self.sees_tool(name)

    def seen(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the client sees of a circuit's record."""
        if self.tenant is None:
            return record
        found = {name: value for name, value in record.items() if name in TENANT_FIELDS}
        cause = found.get("cause")
        if isinstance(cause, Mapping):
            found["cause"] = {name: value for name, value in cause.items() if name in _CAUSE_FIELDS}
        leases = found.get("leases")
        if leases:
            found["leases"] = [each for each in leases if self.emitter_id and each.get("emitter_id") == self.emitter_id]
        fallback = found.get("fallback")
        if fallback:
            found["fallback"] = [each for each in fallback if self.sees_tool(each)]
        return found


EVERYTHING: Final = Sight()
"""What a client without restrictions sees."""


def covers_family(glob: str, family: str, family_pattern: str = DEFAULT_PATTERN) -> bool:
    """Return whether a glob covers a tool that the family may have."""
    if matches(glob, family):
        return True
    if not is_glob(glob):
        return family_of(glob, family_pattern) == family
    literal, first = _WILDCARD.split(glob, maxsplit=1)[0], f"{family}:"
    return literal.startswith(first) or first.startswith(literal)
