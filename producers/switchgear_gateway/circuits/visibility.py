"""Which circuits a client gets.

Circuits belong to the whole fleet. A client needs those of the tools that it may use, and those of their servers:

* A token of some tools gets the circuits of these tools and of their families.
* A token of one tenant gets no circuits of users and sessions, because a record doesn't say whose they are. ``POST /v1/decide`` decides
  by them. Its records have no counts and no last error, because both come from the calls of all tenants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from switchgear.policies.glob import is_glob, matches
from switchgear_access.principal import Principal, Role
from switchgear_gateway.circuits.changes import Change
from switchgear_schemas.families import DEFAULT_PATTERN, family_of

_WILDCARD: Final = re.compile(r"[*?\[]")
NOBODY_ELSE: Final = frozenset({"tool", "family"})
"""Circuits that belong to no user and no session."""


@dataclass(frozen=True, slots=True)
class CircuitFilter:
    """The circuits of one client. Clients with an equal filter get the same bytes.

    Args:
        allowed: Globs of the token's tools. Empty: all.
        wanted: The glob that the request names. None: all.
        for_tenant: Whether the token is for one tenant.
        family_pattern: How the name of a tool tells its family.
    """

    allowed: tuple[str, ...] = ()
    wanted: str | None = None
    for_tenant: bool = False
    family_pattern: str = DEFAULT_PATTERN

    @classmethod
    def of(cls, principal: Principal, wanted: str | None, family_pattern: str = DEFAULT_PATTERN) -> CircuitFilter:
        """Return what a client may and wants to see."""
        return cls(principal.tools, wanted, principal.tenant is not None, family_pattern)

    def sees(self, change: Change) -> bool:
        """Return whether the client gets this change."""
        if self.for_tenant and change.scope not in NOBODY_ELSE:
            return False
        covers = self._covers_family if change.scope == "family" else matches
        return (not self.allowed or any(covers(glob, change.tool) for glob in self.allowed)) and (
            self.wanted is None or covers(self.wanted, change.tool)
        )

    def _covers_family(self, glob: str, family: str) -> bool:
        """Return whether a glob covers a tool that the family may have."""
        if matches(glob, family):
            return True
        if not is_glob(glob):
            return family_of(glob, self.family_pattern) == family
        literal, first = _WILDCARD.split(glob, maxsplit=1)[0], f"{family}:"
        return literal.startswith(first) or first.startswith(literal)


def may_follow(principal: Principal) -> bool:
    """Return whether a client may follow circuits: with them it decides about its calls (``emit``), or shows them (``read``)."""
    return principal.may(Role.EMIT) or principal.may(Role.READ)
