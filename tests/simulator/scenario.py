"""Scenario: how large the simulated fleet is, and how much goes wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from switchgear_schemas import BreakerPolicy
from switchgear_schemas.policy import FLEET_DEFAULT

THREE_PROBES: Final = FLEET_DEFAULT.model_copy(
    update={"permitted_number_of_calls_in_half_open_state": 3, "success_threshold_to_close": 3}
)
GROWING_WAIT: Final = FLEET_DEFAULT.model_copy(
    update={"backoff_multiplier": 2.0, "max_wait_duration_in_open_state_s": 240.0, "jitter": 0.2}
)
POLICIES: Final = (FLEET_DEFAULT, THREE_PROBES, FLEET_DEFAULT, GROWING_WAIT)
"""Of the simulated tools, by turns."""
CALL_LIMIT_S: Final = 20.0
"""No call lasts longer. It is below every wait, so a probe of one half-open stay has ended before the next stay begins."""
PROBE_WAIT_S: Final = 0.25
SETTABLE: Final = frozenset({"seed", "processes", "tools", "hours", "calls_per_s", "workers", "skew_s", "far_skew_s"})
"""On the command line."""
SILENCE_S: Final = 30.0
STALE_AFTER_S: Final = 15.0
"""The guard's own: a follower whose broker was silent for so long is out of reach."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One simulation. All times are virtual seconds; every ``..._every_s`` is a mean interval over the whole fleet, 0 for never.

    Attributes:
        seed: of the one random generator that everything is drawn from.
        processes: guards, each with its own breakers, follower and clock.
        tools: called by every process, a few of them much more than the rest.
        hours: virtual time with calls and faults; after it everything is mended and comes to rest.
        calls_per_s: demand of the whole fleet, Poisson by process and tool.
        partitions: of every topic.
        workers: that share the partitions.
        outage_every_s: of one tool.
        outage_s: mean length of an outage.
        worker_crash_every_s: a worker dies somewhere within a batch.
        failover_s: from a worker's death to the take-over of its circuits, at least and at most.
        zombie_every_s: a worker stands still within a batch until it was replaced, then writes what it had in hand.
        worker_outage_every_s: no worker at all, for up to two minutes.
        process_crash_every_s: a process dies with its calls, leases and unsent events, and comes back under a new name.
        holder_crash_share: of the processes that begin a probe die during it.
        stale_every_s: a process's follower hears nothing for up to a minute.
        cut_every_s: a process's events don't get out for up to a minute.
        skew_s: clocks of processes differ from the broker's by this much (standard deviation).
        far_skew_s: one process in fifty is off by up to so much more. A clock that is behind by more than the worker's ``late_after_s``
            (300) makes all its events late ones, which don't count; that is not simulated.
        foreign_share: of the calls of every fifth tool come from processes without a guard.
        command_every_s: an operator opens, closes, disables or resets a circuit.
    """

    seed: int = 1
    processes: int = 1_000
    tools: int = 200
    hours: float = 0.5
    calls_per_s: float = 80.0
    partitions: int = 12
    workers: int = 2
    outage_every_s: float = 2_400.0
    outage_s: float = 240.0
    worker_crash_every_s: float = 240.0
    failover_s: tuple[float, float] = (6.0, 10.0)
    zombie_every_s: float = 900.0
    worker_outage_every_s: float = 3_000.0
    process_crash_every_s: float = 20.0
    holder_crash_share: float = 0.05
    stale_every_s: float = 10.0
    cut_every_s: float = 15.0
    skew_s: float = 0.5
    far_skew_s: float = 250.0
    foreign_share: float = 0.3
    command_every_s: float = 200.0

    @property
    def length_s(self) -> float:
        """Virtual seconds with calls and faults."""
        return self.hours * 3600

    def arguments(self) -> str:
        """Of the command line that repeats it, as far as that differs from the default."""
        standard = Scenario()
        return " ".join(
            f"--{field.name.replace('_', '-')} {getattr(self, field.name)}"
            for field in fields(self)
            if field.name in SETTABLE
            and (field.name == "seed" or getattr(self, field.name) != getattr(standard, field.name))
        )

    def policy(self, number: int) -> BreakerPolicy:
        """The fleet's policy of one tool."""
        return POLICIES[number % len(POLICIES)]
