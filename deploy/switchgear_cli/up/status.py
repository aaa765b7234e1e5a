"""What the live view shows, as plain values: taken from the supervisor and the API, drawn elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from switchgear_cli.up.supervision import Phase
from switchgear_cli.up.supervisor import Supervised


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """One component's line."""

    name: str
    phase: Phase
    pid: int | None
    restarts: int
    address: str
    problem: str

    @classmethod
    def of(cls, supervised: Supervised) -> ComponentStatus:
        """The line of a supervised component; its last problem is shown until it runs again."""
        component, watch = supervised.component, supervised.watch
        return cls(
            name=component.name,
            phase=watch.phase,
            pid=component.pid,
            restarts=watch.restarts,
            address=component.address,
            problem="" if watch.phase is Phase.RUNNING else watch.problem,
        )


@dataclass(frozen=True, slots=True)
class TransitionLine:
    """One change of a circuit's state."""

    at: datetime
    tool_name: str
    previous: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Readings:
    """What the API said last. ``problem`` is why it could not be asked; the rest is then of before."""

    circuits: Mapping[str, int] = field(default_factory=dict)
    stored: int | None = None
    transitions: tuple[TransitionLine, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """One frame of the view. ``ready_s``: seconds from start to ready; None before that."""

    api_url: str
    bootstrap: str
    data_dir: str
    demo: bool
    components: tuple[ComponentStatus, ...]
    readings: Readings
    ready_s: float | None
    doing: str = ""
