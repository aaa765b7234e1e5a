"""The oracle of the fold: every event on its own, through the breaker, and never as part of a run."""

from __future__ import annotations

from switchgear.fleet import FleetFold
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.log import LogRecord
from switchgear_schemas.wire import Execution


class EventByEvent(FleetFold):
    """A fold that counts one event after the other."""

    def _begin_runs(self, *_: LiveCircuit | LogRecord | Execution | None) -> None:
        """Begin none."""
