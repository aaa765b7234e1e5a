"""The oracle of the fold: every event on its own, through the breaker, and never as part of a run."""

from __future__ import annotations

from switchgear.fleet import FleetFold


class EventByEvent(FleetFold):
    """A fold that counts one event after the other."""

    def _begin_run(self, *_: object) -> None:
        """Begin none."""
