"""Which circuits a client of the gateway gets: those that it may see (:mod:`switchgear_http.visibility`), of the tools that it wants."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Self

from switchgear.policies.glob import is_glob, matches
from switchgear_gateway.circuits.changes import Change
from switchgear_http.principal import Principal
from switchgear_http.visibility import EVERYTHING, NOTHING_NAMED, Named, Sight, covers_family
from switchgear_schemas.families import DEFAULT_PATTERN


@dataclass(frozen=True, slots=True)
class CircuitFilter:
    """The circuits of one client. Clients with an equal filter get the same bytes.

    Args:
        sight: What the client may see.
        wanted: The glob that the request names. None: all.
    """

    sight: Sight = EVERYTHING
    wanted: str | None = None

    @classmethod
    def of(
        cls,
        principal: Principal,
        wanted: str | None,
        family_pattern: str = DEFAULT_PATTERN,
        *,
        named: Named = NOTHING_NAMED,
        emitter_id: str = "",
    ) -> Self:
        """Return what a client may and wants to see.

        Args:
            principal: The client.
            wanted: The glob that its request names. The whole name of a tool is a name that its tenant knows.
            family_pattern: The fleet's setting.
            named: What its tenant has named before.
            emitter_id: The client's process. It counts for a client of one tenant only, so that all others share their bytes.
        """
        if wanted is not None and not is_glob(wanted):
            asked = Named.of([wanted], family_pattern)
            named = Named(named.tools | asked.tools, named.families | asked.families)
        sight = Sight.of(principal, named, family_pattern)
        return cls(sight if sight.tenant is None else replace(sight, emitter_id=emitter_id), wanted)

    @property
    def reader(self) -> Sight | None:
        """What the client sees of each record. None: all of it."""
        return None if self.sight.tenant is None else self.sight

    @property
    def checksum(self) -> int:
        """A number that differs for most other filters, and is the same at every gateway."""
        named = sorted(self.sight.named.tools)
        return zlib.crc32(repr((replace(self.sight, named=NOTHING_NAMED), named, self.wanted)).encode())

    def sees(self, change: Change) -> bool:
        """Return whether the client gets this change."""
        if not self.sight.sees_circuit(change.tool, change.scope, change.whose):
            return False
        if self.wanted is None:
            return True
        if change.scope == "family":
            return covers_family(self.wanted, change.tool, self.sight.family_pattern)
        return matches(self.wanted, change.tool)

    def event(self, change: Change) -> bytes:
        """Return the event of a change. Empty if the client doesn't get it."""
        return change.event(self.reader) if self.sees(change) else b""
