"""The simulated tools: healthy with a few errors, or broken in one of several ways, by a schedule of outages."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random
from typing import Final

from switchgear.classify import Classification
from switchgear_schemas.enums import ErrorClass
from switchgear_schemas.partitioner import owner_partition
from tests.simulator.scenario import CALL_LIMIT_S, Scenario

KINDS: Final = ("down", "half", "hanging", "limited")
"""The kinds of an outage: every call fails, half of them fail, calls hang until their limit, or the tool sends Retry-After."""


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


class SimulatedTool:
    """A tool with its name, calls per second, base rate of errors, and outages."""

    def __init__(self, number: int, scenario: Scenario, weight: float, rng: Random) -> None:
        self.number = number
        self.name = f"mcp:sim:tool_{number:03d}"
        self.partition = owner_partition(self.name, scenario.partitions)
        self.policy = scenario.policy(number)
        self.calls_per_s = scenario.calls_per_s * weight
        self.error_rate = rng.uniform(0.01, 0.05)
        self.foreign = number % 5 == 4
        """Whether processes without a guard call it too."""
        self.outages = _outages(scenario, rng)
        self._starts = [outage.start for outage in self.outages]

    def outage(self, now: float) -> Outage | None:
        """Return the outage at ``now``; None if the tool is healthy."""
        at = bisect_right(self._starts, now) - 1
        found = self.outages[at] if at >= 0 else None
        return found if found is not None and now < found.end else None

    def healthy_since(self, now: float) -> float | None:
        """Return the end of the last outage; None during one."""
        at = bisect_right(self._starts, now) - 1
        if at < 0:
            return 0.0
        return None if now < self.outages[at].end else self.outages[at].end

    def call(self, now: float, rng: Random) -> SimulatedOutcome:
        """Return the outcome of a call that begins at ``now``."""
        outage = self.outage(now)
        draw, seconds = rng.random(), 0.05 + rng.expovariate(4.0)
        if outage is None:
            if draw >= self.error_rate:
                # Some errors come from the callers. They say nothing about the tool's health.
                return SimulatedOutcome(min(seconds, CALL_LIMIT_S), _BAD_INPUT if draw > 0.99 else None)
            return SimulatedOutcome(min(seconds, CALL_LIMIT_S), _SERVER if draw < self.error_rate / 2 else _TRANSPORT)
        if outage.kind == "hanging":
            return SimulatedOutcome(CALL_LIMIT_S, _TIMEOUT)
        if outage.kind == "half" and draw < 0.45:
            return SimulatedOutcome(min(seconds, CALL_LIMIT_S), None)
        if outage.kind == "limited":
            return SimulatedOutcome(0.02, SimulatedError("rate_limited", round(rng.uniform(5, 120), 1)))
        return SimulatedOutcome(min(seconds, CALL_LIMIT_S), _DENIED if draw > 0.98 else _SERVER)


def _outages(scenario: Scenario, rng: Random) -> list[Outage]:
    found: list[Outage] = []
    if not scenario.outage_every_s:
        return found
    at = rng.expovariate(1 / scenario.outage_every_s)
    while at < scenario.length_s:
        end = at + 20 + rng.expovariate(1 / scenario.outage_s)
        found.append(Outage(at, end, rng.choice(KINDS)))
        at = end + 60 + rng.expovariate(1 / scenario.outage_every_s)
    return found


def make_tools(scenario: Scenario, rng: Random) -> list[SimulatedTool]:
    """Return all tools. Their calls fall with the number as ``1 / (number + 1) ** 0.7``: few are called often, most rarely."""
    weights = [1 / (number + 1) ** 0.7 for number in range(scenario.tools)]
    total = sum(weights)
    return [SimulatedTool(number, scenario, weight / total, rng) for number, weight in enumerate(weights)]
