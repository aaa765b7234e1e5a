"""A fleet whose tools have rate limits: 20 processes, of which others want to call every few seconds."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from switchgear_schemas import BreakerPolicy
from switchgear_schemas.policy import FLEET_DEFAULT
from tests.simulator.quota import Quota
from tests.simulator.scenario import Scenario

CHANGE_S: Final = 7.0
"""After so long other processes want to call."""
WANT: Final = 0.4
"""Share of the processes that want to call at a time."""
_LIMITS: Final = ("100/10s", "600/min", "200/10s", None, None)
"""The limits that the policies of the tools state, in turn. None: it is learned."""
_QUOTAS: Final = ((100, 10.0, False), (600, 60.0, True), (20, 1.0, False), (10, 1.0, False), (300, 30.0, True))
"""What the tools take: calls, period, and whether the period is the clock's."""


@dataclass(frozen=True, slots=True)
class PacedScenario(Scenario):
    """Tools whose limits the fleet keeps. Each is called two to six times as often as it takes."""

    processes: int = 20
    tools: int = 5
    servers: int = 1
    hours: float = 0.2
    calls_per_s: float = 250.0
    partitions: int = 4
    outage_every_s: float = 0.0
    server_outage_every_s: float = 0.0
    foreign_share: float = 0.0
    command_every_s: float = 0.0
    far_skew_s: float = 0.0

    def policy(self, number: int) -> BreakerPolicy:
        """Return the fleet's policy of a tool: it keeps a limit that is stated or learned."""
        limit = _LIMITS[number % len(_LIMITS)]
        return FLEET_DEFAULT.model_copy(update={"pace": "enforce", "pace_limit": limit, "pace_wait_s": 2.0})

    def quota(self, number: int) -> Quota | None:
        """Return what a tool takes."""
        calls, period_s, fixed = _QUOTAS[number % len(_QUOTAS)]
        return Quota(calls, period_s, fixed=fixed)

    def caller(self, now: float, rng: Random) -> int | None:
        """Return a process that wants to call. Some want to call more than others, and now and then nobody does."""
        time = int(now // CHANGE_S)
        number = int(rng.random() * self.processes)
        want = Random(time * 1_000 + number).random()
        return number if want < WANT and rng.random() < 0.3 + 0.7 * want / WANT else None
