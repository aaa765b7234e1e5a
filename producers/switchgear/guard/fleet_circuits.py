"""The fleet's circuits, as this process follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from switchgear.follower.status import STALE_AFTER_S
from switchgear.follower.view import CircuitView, LeaseView
from switchgear.guard.probes import ProbeCoordinator
from switchgear.guard.refusal_summary import RefusalReporter
from switchgear.guard.rejections import Rejection

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower


FleetAnswer = Literal["pass", "refuse", "ask"] | LeaseView
"""What a circuit's record says about a call. ``ask``: a probe may go if the owner grants a lease. A LeaseView permits it."""


class FleetCircuits:
    """Answers what the fleet says about a call, and asks for probes. Thread-safe.

    ``silence_s``: see :class:`~switchgear.guard.probes.ProbeCoordinator`.
    """

    def __init__(
        self,
        follower: CircuitFollower,
        emitter: Emitter,
        *,
        silence_s: float,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.follower = follower
        self.emitter = emitter
        self.probes = ProbeCoordinator(silence_s=silence_s, clock=clock)
        self.refusals = RefusalReporter(emitter, clock, wall)
        self.scoped: set[str] = follower.table.scoped
        """Tools that have circuits of users or sessions."""
        self.views: Mapping[str, CircuitView] = follower.table.views
        follower.broker_time.wall = wall
        self.wall: Callable[[], float] = follower.broker_time
        """The broker's time, in seconds since 1970."""
        follower.listeners.append(self.on_view)

    def on_view(self, view: CircuitView) -> None:
        """Take note of a circuit's new record."""
        self.probes.on_view(view, self.emitter.emitter_id)

    def view(self, tool: str, user_id: str, session_id: str | None) -> CircuitView | None:
        """Return the circuit that decides on a call: one that refuses, else the one of the highest generation.

        The owner decides which of the tool's, the user's and the session's circuit counts the call. An event with a lower
        generation than that circuit's isn't counted.
        """
        view = self.views.get(tool)
        if tool not in self.scoped:
            return view
        candidates = [view, self.views.get(f"{tool}|user={user_id}"), self.views.get(f"{tool}|session={session_id}")]
        found = [candidate for candidate in candidates if candidate is not None]
        refusing = next((candidate for candidate in found if not candidate.passes), None)
        return refusing or max(found, key=lambda each: (each.overrides, each.generation), default=None)

    def answer(self, view: CircuitView) -> FleetAnswer:
        """Return what ``view`` says about a call of this process now."""
        return fleet_answer(view, self.wall(), self.emitter.emitter_id)

    def reachable(self, view: CircuitView) -> bool:
        """Return whether the circuit's owner can answer a request. If not, the process's own breaker decides alone."""
        age = self.follower.age_s()
        return age is not None and age < STALE_AFTER_S and self.emitter.connected and not self.probes.silent(view)

    def generation(self, view: CircuitView | None) -> int | None:
        """Return the generation of a circuit. One without a record has 0 once all are loaded: it has never changed."""
        if view is not None:
            return view.generation
        return 0 if self.follower.loaded else None

    def rejection(self, view: CircuitView, is_open: Callable[[str], bool]) -> Rejection:
        """Return the refusal of a call by ``view``, with the first of its fallback tools that isn't open."""
        now = self.wall()
        wait = None
        if view.open_until is not None and view.state != "half_open" and now < view.open_until:
            wait = view.open_until - now
        return Rejection(
            tool=view.tool_name,
            state="forced_open" if view.forced else view.state,
            source="fleet",
            reason=view.reason,
            retry_after_s=wait,
            last_error=view.last_error,
            fallback=next((tool for tool in view.fallback if not is_open(tool)), None),
            generation=view.generation,
            scope=view.scope,
        )


def fleet_answer(view: CircuitView, now: float, emitter_id: str) -> FleetAnswer:
    """Return what ``view`` says about a call at ``now`` (seconds since 1970) of the process ``emitter_id``."""
    if view.passes:
        return "pass"
    for lease in view.leases:
        if lease.emitter_id == emitter_id and now < lease.expires_at:
            return lease
    if view.state == "half_open" and not view.forced:
        # Other processes probe. Without a live lease the probe is lost or done, and the next one may go.
        taken = view.permits_left <= 0 and any(now < lease.expires_at for lease in view.leases)
        return "refuse" if taken else "ask"
    if view.open_until is None:
        return "refuse" if view.forced else "ask"
    return "refuse" if now < view.open_until else "ask"
