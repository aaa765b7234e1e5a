"""The families of tools in a guard: their names by tool, and what the permit of a call holds of its tool's family."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from switchgear.breaker import Result, family_result_kind
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.families import family_of

if TYPE_CHECKING:
    from switchgear.breaker import BreakerPermit
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear_schemas.enums import ErrorClass, Status


REMEMBERED: Final = 65_536
"""Tools whose family stays in memory."""


class Family(NamedTuple):
    """A family with the id of its circuit."""

    name: str
    circuit_id: str


FamilyOf = Callable[[str], Family | None]
"""Takes a tool's name."""


@lru_cache(maxsize=64)
def family_finder(pattern: str) -> FamilyOf:
    """Return a fast function from a tool's name to its family under ``pattern``. All clients share it."""

    @lru_cache(maxsize=REMEMBERED)
    def find(tool: str) -> Family | None:
        name = family_of(tool, pattern)
        return None if name is None else Family(name, circuit_id(name, "family"))

    return find


class FamilyPermit(msgspec.Struct, frozen=True):
    """The family's part of a permit.

    Attributes:
        name: The family.
        circuit: This process's circuit of the family; None if it wasn't asked.
        breaker_permit: Of that circuit. None if a probe for the fleet goes although it refuses.
        generation: Generation of the fleet's circuit of the family; None if it isn't known.
        lease: Circuit and lease id of a probe for the fleet.
    """

    name: str
    circuit: LocalCircuit | None
    breaker_permit: BreakerPermit | None
    generation: int | None
    lease: tuple[str, str] | None = None

    @property
    def probe(self) -> bool:
        """Whether the call tests if the family's server answers again, for this process or for the fleet."""
        return self.lease is not None or (self.breaker_permit is not None and self.breaker_permit.probe)

    def release(self, now: float) -> None:
        """Give the permit of this process's circuit back."""
        if self.circuit is not None and self.breaker_permit is not None:
            self.circuit.release(self.breaker_permit, now)

    def record(
        self, now: float, result: Result, status: Status, error_class: ErrorClass | None, error: str | None
    ) -> None:
        """Count a call for the family. ``result`` has the values that are the same for the tool's circuit."""
        circuit = self.circuit
        if circuit is not None:
            kind = family_result_kind(status, error_class, circuit.breaker.policy)
            circuit.record(now, msgspec.structs.replace(result, kind=kind), self.breaker_permit, error, error_class)
