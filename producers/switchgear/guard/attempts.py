"""A call while it is decided: whose circuits are asked, and what it holds of them so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from switchgear.follower.view import CircuitView
from switchgear.guard.rejections import Caller

if TYPE_CHECKING:
    from concurrent.futures import Future

    from switchgear.breaker import BreakerPermit
    from switchgear.guard.credentials import Held
    from switchgear.guard.families import Family, FamilyPermit
    from switchgear.guard.fleet_circuits import Lease
    from switchgear.guard.local_circuits import LocalCircuit


class Attempt(msgspec.Struct, gc=False):
    """A call that is being decided. Each decider notes here what it takes for the call.

    Attributes:
        tool: The tool.
        caller: For whom the call is made, and on what.
        family: The tool's family; None without one.
        view: The fleet's circuit that decides; None without one.
        family_view: The fleet's circuit of the family; None without one.
        probes: The fleet's circuit of the tool, if its owner must be asked for a probe.
        family_lease: Circuit and lease id of a probe of the family for the fleet.
        of_family: What it holds of the family.
        circuit: This process's circuit of the tool; None if it wasn't asked.
        breaker_permit: Of that circuit. None if the call goes although it refuses.
        lease: Circuit and lease id of a probe of the tool for the fleet.
        held: What it holds of its credential's runs.
    """

    tool: str
    caller: Caller
    family: Family | None
    view: CircuitView | None
    family_view: CircuitView | None
    probes: CircuitView | None = None
    family_lease: Lease | None = None
    of_family: FamilyPermit | None = None
    circuit: LocalCircuit | None = None
    breaker_permit: BreakerPermit | None = None
    lease: Lease | None = None
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class PendingProbe:
    """A probe of a tool or of its family was requested. ``answer`` is done when the fleet has answered."""

    attempt: Attempt
    view: CircuitView
    """The circuit that was asked."""
    answer: Future[None]
