"""The status of one client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus
from switchgear.guard.fleet_state import GuardMode
from switchgear.guard.turns import PaceStatus
from switchgear_schemas.enums import CircuitState


@dataclass(frozen=True, slots=True)
class SwitchgearStatus:
    """The condition of a client at one moment."""

    emitter: EmitterStatus | None
    """None without Kafka."""
    follower: FollowerStatus | None
    """None without Kafka."""
    local: Mapping[str, CircuitState]
    """States of this process's own circuits that aren't closed, by circuit id."""
    background_deaths: Mapping[str, str]
    """The last error of each background job that was restarted."""
    mode: GuardMode = "local_only"
    """What decides about calls: see :data:`~switchgear.guard.fleet_state.GuardMode`."""
    owner_silent_s: Mapping[str, float] = field(default_factory=dict)
    """For how many seconds requests for a probe got no answer, by circuit id. No worker owns these circuits, or it is behind."""
    hook_failures: int = 0
    """The number of exceptions of hooks. The log has them."""
    fleet: Mapping[str, CircuitState] = field(default_factory=dict)
    """States of the fleet's circuits as this process sees them, by circuit id."""
    caller_errors: int = 0
    """The number of calls refused because the tool had rejected the caller's last calls."""
    tool_list_changes: int = 0
    """How often a list of tools that a model had seen changed. Each change makes the model's provider read the whole prompt again."""

    paces: Mapping[str, PaceStatus] = field(default_factory=dict)
    """What this process does by the rate limits that the fleet keeps, by tool."""

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return what is wrong, one sentence each. Empty if nothing is wrong, and without Kafka."""
        return tuple(_problems(self))


def _problems(status: SwitchgearStatus) -> Iterator[str]:
    """Yield what is wrong, one sentence each."""
    emitter, follower = status.emitter, status.follower
    if follower is not None and status.mode != "fleet":
        when = "never loaded" if follower.age_s is None else f"last confirmed {follower.age_s:.0f} s ago"
        yield f"The fleet's circuits were {when}; mode {status.mode}."
    if follower is not None and follower.lag:
        yield f"The follower is {follower.lag} records behind."
    if status.owner_silent_s:
        longest = max(status.owner_silent_s.values())
        yield f"Requests for a probe of {len(status.owner_silent_s)} circuits got no answer for up to {longest:.0f} s."
    if emitter is not None:
        if emitter.away_s is not None:
            yield f"Kafka has not taken an event for {emitter.away_s:.0f} s."
        if emitter.dropped:
            yield f"{emitter.dropped} events were dropped."
        if emitter.spool is not None and emitter.spool.in_use:
            yield f"{emitter.spool.records} events are in the spool."
        if emitter.spool is not None and emitter.spool.error is not None:
            yield f"The spool can't be used: {emitter.spool.error}."
    for job, error in status.background_deaths.items():
        yield f"The background job {job} was restarted after an error: {error}."
