"""A call while it is decided: whose circuits are asked, and what it holds of them so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from switchgear.follower.view import CircuitView
from switchgear.guard.rejections import Caller
from switchgear.guard.turns import Turn

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
        turn: Its turn, if the fleet keeps a limit of the tool.
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
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A call waits. ``answer`` is done when there is news of it."""

    attempt: Attempt
    view: CircuitView
    """The circuit that decides."""
    answer: Future[None]
    wait_s: float | None = None
    """Seconds after which to look without news. None: the client's ``probe_wait``."""


class PendingProbe(Pending):
    """A probe of a tool or of its family was requested. ``answer`` is done when the fleet has answered."""

    __slots__ = ()


class PendingTurn(Pending):
    """The call waits for its turn. ``answer`` is done when the fleet's record of its tool has changed."""

    __slots__ = ()
