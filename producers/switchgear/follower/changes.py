"""Turn the records of the fleet's circuits into changes of state, for hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from switchgear.telemetry.hooks import CircuitChange
from switchgear_schemas.enums import CircuitState

if TYPE_CHECKING:
    from switchgear.follower.follower import CircuitFollower
    from switchgear.follower.view import CircuitView


class FleetChanges:
    """A listener of the follower that reports each change of state. While the circuits load, it only remembers their states.

    Args:
        report: Called with each change, in the follower's thread.
        follower: The follower.
        wall: Returns seconds since 1970.
    """

    def __init__(
        self, report: Callable[[CircuitChange], None], follower: CircuitFollower, wall: Callable[[], float]
    ) -> None:
        self._report = report
        self._follower = follower
        self._wall = wall
        self._known: dict[str, CircuitState] = {}

    def on_view(self, view: CircuitView) -> None:
        """Compare a circuit's new record with the last one."""
        state: CircuitState = "forced_open" if view.forced else view.state
        previous = self._known.get(view.circuit_id)
        if len(self._known) > 2 * len(self._follower.table.views) + 100:  # circuits come and go
            self._known = {each: was for each, was in self._known.items() if each in self._follower.table.views}
        self._known[view.circuit_id] = state
        if not self._follower.loaded or state == (previous or "closed"):
            return
        until = view.open_until if state == "open" else None
        self._report(
            CircuitChange(
                circuit_id=view.circuit_id,
                tool=view.tool_name,
                source="fleet",
                previous=previous,
                state=state,
                generation=view.generation,
                reason=view.reason,
                retry_after_s=None if until is None else max(0.0, until - self._wall()),
            )
        )
