"""SwitchgearStatus: the condition of one client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus
from switchgear.guard.fleet_state import GuardMode
from switchgear_schemas.enums import CircuitState


@dataclass(frozen=True, slots=True)
class SwitchgearStatus:
    """As of now. ``local``: states of this process's own breakers that are not closed, by circuit id."""

    emitter: EmitterStatus | None
    follower: FollowerStatus | None
    local: Mapping[str, CircuitState]
    background_deaths: Mapping[str, str]
    """Last error of each background job that had to be started again."""
    mode: GuardMode = "local_only"
    """Who decides now: see :data:`~switchgear.guard.fleet_state.GuardMode`."""
    owner_silent_s: Mapping[str, float] = field(default_factory=dict)
    """By circuit id: how long requests for a probe have gone unanswered. Nobody owns these circuits, or their owner is behind."""
    hook_failures: int = 0
    """Exceptions of hooks; the log has them."""

    @property
    def degraded(self) -> tuple[str, ...]:
        """What is not as it should be, one sentence each; empty when all is well, and without Kafka."""
        return tuple(degraded(self))


def degraded(status: SwitchgearStatus) -> Iterator[str]:
    """What is not as it should be, one sentence each."""
    emitter, follower = status.emitter, status.follower
    if follower is not None and status.mode != "fleet":
        age = "never" if follower.age_s is None else f"{follower.age_s:.0f} s ago"
        yield f"The fleet's circuits were last confirmed {age}; mode {status.mode}."
    if follower is not None and follower.lag:
        yield f"The follower is {follower.lag} records behind."
    if status.owner_silent_s:
        longest = max(status.owner_silent_s.values())
        yield f"Requests for a probe go unanswered, of {len(status.owner_silent_s)} circuits, for up to {longest:.0f} s."
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
        yield f"The background job {job} was started again after: {error}."
