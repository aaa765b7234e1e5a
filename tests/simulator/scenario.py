"""The size of the simulated fleet, and the frequency of faults."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import Final

from switchgear_schemas import BreakerPolicy
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT
from tests.simulator.quota import Quota

THREE_PROBES: Final = FLEET_DEFAULT.model_copy(
    update={"permitted_number_of_calls_in_half_open_state": 3, "success_threshold_to_close": 3}
)
GROWING_WAIT: Final = FLEET_DEFAULT.model_copy(
    update={"backoff_multiplier": 2.0, "max_wait_duration_in_open_state_s": 240.0, "jitter": 0.2}
)
BY_DEGREES: Final = FLEET_DEFAULT.model_copy(update={"recovery_ramp": (0.1, 0.25, 0.5), "recovery_ramp_step_s": 10.0})
POLICIES: Final = (FLEET_DEFAULT, THREE_PROBES, BY_DEGREES, GROWING_WAIT)
"""The policies of the simulated tools, in turn."""
THREE_FAMILY_PROBES: Final = FAMILY_DEFAULT.model_copy(
    update={"permitted_number_of_calls_in_half_open_state": 3, "success_threshold_to_close": 3}
)
FAMILY_POLICIES: Final = (FAMILY_DEFAULT, THREE_FAMILY_PROBES)
"""The policies of the simulated servers, in turn."""
CALL_LIMIT_S: Final = 20.0
"""The longest call. It is shorter than every wait, so a probe ends before the circuit is half-open the next time."""
PROBE_WAIT_S: Final = 0.25
SETTABLE: Final = frozenset({"seed", "processes", "tools", "hours", "calls_per_s", "workers", "skew_s", "far_skew_s"})
"""Fields that the command line can set."""
FAMILY_PATTERN: Final = DEFAULT_PATTERN
SILENCE_S: Final = 30.0
STALE_AFTER_S: Final = 15.0
"""The guard's limit: a follower whose broker is silent for longer is out of reach."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One simulation. All times are virtual seconds. Every ``..._every_s`` is a mean interval over the whole fleet, 0 for never.

    Attributes:
        seed: Seed of the random generator, the only one.
        processes: Guards, each with its own breakers, follower and clock.
        tools: Tools, called by every process. A few are called much more than the rest.
        servers: Servers that share most of the tools. Of eight tools, one has no server and one has a server of its own.
        hours: Virtual time with calls and faults. After it all faults end.
        calls_per_s: Calls of the whole fleet, Poisson by process and tool.
        partitions: Partitions of every topic.
        workers: Workers that share the partitions.
        outage_every_s: An outage of one tool.
        outage_s: Mean length of an outage.
        server_outage_every_s: An outage of one server: none of its tools answers.
        server_outage_s: Mean length of such an outage.
        worker_crash_every_s: A worker dies during a batch.
        failover_s: Time from a worker's death to the take-over of its circuits, at least and at most.
        zombie_every_s: A worker stands still during a batch until it is replaced, and then writes the batch.
        worker_outage_every_s: There is no worker for up to two minutes.
        process_crash_every_s: A process dies with its calls, leases and unsent events. A new one takes its place.
        holder_crash_share: Share of the processes that die during a probe.
        stale_every_s: A process's follower receives nothing for up to a minute.
        cut_every_s: A process's events do not get out for up to a minute.
        skew_s: Standard deviation of the clocks of processes from the broker's clock.
        far_skew_s: One process in fifty is off by up to this much more. A clock that is behind by more than the worker's
            ``late_after_s`` (300) makes all its events late, and late events do not count. This is not simulated.
        foreign_share: Share of the calls of every fifth tool that come from processes without a guard.
        command_every_s: An operator opens, closes, disables or resets a circuit.
    """

    seed: int = 1
    processes: int = 1_000
    tools: int = 200
    servers: int = 20
    hours: float = 0.5
    calls_per_s: float = 80.0
    partitions: int = 12
    workers: int = 2
    outage_every_s: float = 2_400.0
    outage_s: float = 240.0
    server_outage_every_s: float = 2_400.0
    server_outage_s: float = 120.0
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
        """The virtual seconds with calls and faults."""
        return self.hours * 3600

    def arguments(self) -> str:
        """Return the arguments of the command line that repeats this scenario, without defaults."""
        standard = Scenario()
        return " ".join(
            f"--{field.name.replace('_', '-')} {getattr(self, field.name)}"
            for field in fields(self)
            if field.name in SETTABLE
            and (field.name == "seed" or getattr(self, field.name) != getattr(standard, field.name))
        )

    def family_policy(self, number: int) -> BreakerPolicy:
        """Return the fleet's policy of a server's circuit."""
        return FAMILY_POLICIES[number % len(FAMILY_POLICIES)]

    def policy(self, number: int) -> BreakerPolicy:
        """Return the fleet's policy of a tool."""
        return POLICIES[number % len(POLICIES)]

    def caller(self, _now: float, rng: Random) -> int | None:
        """Return the number of the process that makes a call now. None: nobody does."""
        return int(rng.random() * self.processes)

    def quota(self, _number: int) -> Quota | None:
        """Return how many calls a tool takes. None: all."""
        return None
