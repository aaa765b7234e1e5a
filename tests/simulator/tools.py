"""The simulated tools and their servers: healthy with a few errors, or broken in one of several ways, by a schedule of outages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from switchgear.classify import Classification
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.enums import ErrorClass
from switchgear_schemas.partitioner import partition_of
from tests.simulator.scenario import CALL_LIMIT_S, FAMILY_PATTERN, Scenario

KINDS: Final = ("down", "half", "hanging", "limited")
"""The kinds of an outage: every call fails, half of them fail, calls hang until their limit, or the tool sends Retry-After."""
SERVER_KINDS: Final = ("down", "hanging")
"""The kinds of a server's outage: no call of its tools reaches it, or all hang until their limit."""


class SimulatedError(Exception):
    """A failed call, with the class that the guard's classifier reports for it."""

    def __init__(self, error_class: ErrorClass, retry_after_s: float | None = None) -> None:
        super().__init__(f"simulated: {error_class}")
        self.classification = Classification(error_class, retry_after_s)


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage from ``start`` to before ``end``, in virtual seconds."""

    start: float
    end: float
    kind: str


@dataclass(frozen=True, slots=True)
class SimulatedOutcome:
    """How a call ends: after how many seconds, and with which error."""

    seconds: float
    error: SimulatedError | None


_SERVER: Final = SimulatedError("server")
_TRANSPORT: Final = SimulatedError("transport")
_TIMEOUT: Final = SimulatedError("timeout")
_BAD_INPUT: Final = SimulatedError("invalid_input")
_DENIED: Final = SimulatedError("auth")


class Schedule:
    """Outages, one after the other."""

    def __init__(self, outages: Sequence[Outage]) -> None:
        self.outages = outages
        self._starts = [outage.start for outage in outages]

    def at(self, now: float) -> Outage | None:
        """Return the outage at ``now``, or None."""
        at = bisect_right(self._starts, now) - 1
        found = self.outages[at] if at >= 0 else None
        return found if found is not None and now < found.end else None

    def healthy_since(self, now: float) -> float | None:
        """Return the end of the last outage; None during one."""
        at = bisect_right(self._starts, now) - 1
        if at < 0:
            return 0.0
        return None if now < self.outages[at].end else self.outages[at].end


class SimulatedServer:
    """A server with its tools, the circuit of its family, and the outages in which none of its tools answers."""

    def __init__(self, number: int, scenario: Scenario, rng: Random) -> None:
        self.number = number
        self.name = f"mcp:server_{number:02d}"
        self.circuit_id = circuit_id(self.name, "family")
        self.partition = partition_of(self.name, scenario.partitions, FAMILY_PATTERN)
        self.policy = scenario.family_policy(number)
        self.tools: list[SimulatedTool] = []
        self.schedule = _schedule(
            scenario.server_outage_every_s, scenario.server_outage_s, scenario.length_s, SERVER_KINDS, rng
        )

    @property
    def foreign(self) -> bool:
        """Whether processes without a guard call a tool of it."""
        return any(tool.foreign for tool in self.tools)

    def healthy_since(self, now: float) -> float | None:
        """Return since when it and each of its tools answer, because any of them may be its probe. None if one doesn't."""
        return _latest([self.schedule, *(tool.schedule for tool in self.tools)], now)


class SimulatedTool:
    """A tool with its name, calls per second, base rate of errors, and outages."""

    def __init__(
        self, number: int, scenario: Scenario, weight: float, rng: Random, server: SimulatedServer | None = None
    ) -> None:
        self.number = number
        self.server = server
        self.name = f"tool_{number:03d}" if server is None else f"{server.name}:tool_{number:03d}"
        self.circuit_id = self.name
        self.partition = partition_of(self.name, scenario.partitions, FAMILY_PATTERN)
        self.policy = scenario.policy(number)
        self.quota = scenario.quota(number)
        self.calls_per_s = scenario.calls_per_s * weight
        self.error_rate = rng.uniform(0.01, 0.05)
        self.foreign = number % 5 == 4 and (server is None or server.number % 2 == 0)
        """Whether processes without a guard call it too."""
        self.schedule = _schedule(scenario.outage_every_s, scenario.outage_s, scenario.length_s, KINDS, rng)
        if server is not None:
            server.tools.append(self)

    def healthy_since(self, now: float) -> float | None:
        """Return the end of the last outage of the tool or of its server; None during one."""
        return _latest([self.schedule] if self.server is None else [self.schedule, self.server.schedule], now)

    def call(self, now: float, rng: Random) -> SimulatedOutcome:
        """Return the outcome of a call that begins at ``now``."""
        wait_s = None if self.quota is None else self.quota.take(now)
        if wait_s is not None:
            return SimulatedOutcome(0.02, SimulatedError("rate_limited", wait_s))
        outage = self.schedule.at(now)
        dead = None if self.server is None else self.server.schedule.at(now)
        draw, seconds = rng.random(), 0.05 + rng.expovariate(4.0)
        if "hanging" in {each.kind for each in (dead, outage) if each is not None}:
            return SimulatedOutcome(CALL_LIMIT_S, _TIMEOUT)
        if dead is not None:
            return SimulatedOutcome(0.02, _TRANSPORT)
        if outage is None:
            # Some errors come from the callers. They say nothing about the tool's health.
            error = _BAD_INPUT if draw > 0.99 else None
            if draw < self.error_rate:
                error = _SERVER if draw < self.error_rate / 2 else _TRANSPORT
            return SimulatedOutcome(min(seconds, CALL_LIMIT_S), error)
        if outage.kind == "limited":
            return SimulatedOutcome(0.02, SimulatedError("rate_limited", round(rng.uniform(5, 120), 1)))
        works = outage.kind == "half" and draw < 0.45
        error = None if works else _DENIED if draw > 0.98 else _SERVER
        return SimulatedOutcome(min(seconds, CALL_LIMIT_S), error)


def _latest(schedules: Sequence[Schedule], now: float) -> float | None:
    found = [schedule.healthy_since(now) for schedule in schedules]
    healthy = [since for since in found if since is not None]
    return max(healthy) if len(healthy) == len(found) else None


def _schedule(every_s: float, mean_s: float, length_s: float, kinds: Sequence[str], rng: Random) -> Schedule:
    found: list[Outage] = []
    if not every_s:
        return Schedule(found)
    at = rng.expovariate(1 / every_s)
    while at < length_s:
        end = at + 20 + rng.expovariate(1 / mean_s)
        found.append(Outage(at, end, rng.choice(kinds)))
        at = end + 60 + rng.expovariate(1 / every_s)
    return Schedule(found)


def make_tools(scenario: Scenario, rng: Random) -> list[SimulatedTool]:
    """Return all tools. Their calls fall with the number as ``1 / (number + 1) ** 0.7``: few are called often, most rarely."""
    weights = [1 / (number + 1) ** 0.7 for number in range(scenario.tools)]
    total = sum(weights)
    shared = [
        SimulatedServer(each, scenario, rng) for each in range(max(1, min(scenario.servers, scenario.tools // 3)))
    ]
    tools: list[SimulatedTool] = []
    for number, weight in enumerate(weights):
        server: SimulatedServer | None = shared[number % len(shared)]
        if number % 8 == 6:
            server = None
        elif number % 8 == 7:
            server = SimulatedServer(len(shared) + number // 8, scenario, rng)
        tools.append(SimulatedTool(number, scenario, weight / total, rng, server))
    return tools
