"""When is a component that died started again? A pure state machine: (watch, event, time) → watch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

FIRST_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 15.0
# A component that ran this long was well: its next death starts the backoff over.
STABLE_AFTER_S: Final = 30.0


class Phase(StrEnum):
    """Where a component is."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "restarting"


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of one component. Times are seconds of one monotonic clock.

    Attributes:
        phase: Where it is.
        since: When it got there.
        restarts: How often it was started again.
        streak: Deaths without a stable run in between; the backoff grows with it.
        restart_at: When it is due, in ``WAITING`` alone.
        problem: How it died last, for a person; empty before that.
        ever_ready: It was ready at least once.
    """

    phase: Phase = Phase.STOPPED
    since: float = 0.0
    restarts: int = 0
    streak: int = 0
    restart_at: float | None = None
    problem: str = ""
    ever_ready: bool = False


def spawned(watch: Watch, now: float) -> Watch:
    """Its process was started."""
    again = watch.phase is Phase.WAITING
    return replace(watch, phase=Phase.STARTING, since=now, restart_at=None, restarts=watch.restarts + again)


def became_ready(watch: Watch, now: float) -> Watch:
    """It answers that it is ready. Nothing changes unless it was starting."""
    if watch.phase is not Phase.STARTING:
        return watch
    return replace(watch, phase=Phase.RUNNING, since=now, ever_ready=True)


def died(watch: Watch, now: float, problem: str) -> Watch:
    """Its process ended though nobody asked, or could not be started."""
    stable = watch.phase is Phase.RUNNING and now - watch.since >= STABLE_AFTER_S
    streak = 1 if stable else watch.streak + 1
    return replace(
        watch,
        phase=Phase.WAITING,
        since=now,
        streak=streak,
        restart_at=now + backoff_s(streak),
        problem=problem,
    )


def stopped(watch: Watch, now: float) -> Watch:
    """It was ended on purpose."""
    return replace(watch, phase=Phase.STOPPED, since=now, restart_at=None)


def due(watch: Watch, now: float) -> bool:
    """Whether it is to be started now."""
    return watch.phase is Phase.WAITING and watch.restart_at is not None and now >= watch.restart_at


def backoff_s(streak: int) -> float:
    """Seconds to wait after the ``streak``-th death in a row: 0.5, 1, 2, 4, 8, then 15."""
    return min(FIRST_BACKOFF_S * 2.0 ** max(min(streak, 30) - 1, 0), MAX_BACKOFF_S)
