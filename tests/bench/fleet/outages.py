"""The outages, as one table: how a tool answers during each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

FLAPS: Final = 5
"""The phases of a flapping tool: down, up, down, up, down."""


class ToolError(Exception):
    """A tool's error with its HTTP status, and for a limit the seconds to wait."""

    def __init__(self, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code
        self.retry_after = retry_after


@dataclass(frozen=True)
class Timing:
    """The lengths of a trial and of the calls in it, in seconds.

    Attributes:
        healthy_s: Before the outage.
        outage_s: The outage.
        recovery_s: After the outage.
        wait_s: How long every contender refuses before it tries the tool again. A whole number, which AWS Powertools needs.
        pause_s: Between two calls of a process, on average.
        fast_s: A call of a healthy tool.
        slow_s: A call of a slow tool.
        slow_after_s: From here on a call is slow, for the contenders that have such a rule.
        cold_s: A call after the outage: the tool is up, and slow at first.
        timeout_s: When a caller gives up a call that hangs.
    """

    healthy_s: float
    outage_s: float
    recovery_s: float
    wait_s: int
    pause_s: float
    fast_s: float
    slow_s: float
    slow_after_s: float
    cold_s: float
    timeout_s: float

    @property
    def flap_s(self) -> float:
        """How long a flapping tool is down, and how long up."""
        return self.outage_s / FLAPS

    def of_round(self, number: int) -> Timing:
        """Return the timing of a round. Its outage is longer by a part of the wait, another one in each round.

        So the outages end at all phases of the contenders' waits. The parts are multiples of the golden ratio, which spread evenly.
        """
        return replace(self, outage_s=self.outage_s + self.wait_s * (number * 0.618034 % 1))

    @property
    def recovers_s(self) -> float:
        """When the outage is over."""
        return self.healthy_s + self.outage_s

    @property
    def length_s(self) -> float:
        """When the trial is over."""
        return self.recovers_s + self.recovery_s


REAL: Final = Timing(
    healthy_s=1.5, outage_s=12.0, recovery_s=7.0, wait_s=4, pause_s=0.25, fast_s=0.02, slow_s=1.2,
    slow_after_s=1.0, cold_s=0.8, timeout_s=1.5,
)  # fmt: skip
"""For real processes: short, because a trial takes this time."""
SIMULATED: Final = Timing(
    healthy_s=10.0, outage_s=60.0, recovery_s=45.0, wait_s=30, pause_s=2.0, fast_s=0.1, slow_s=6.0,
    slow_after_s=4.0, cold_s=3.0, timeout_s=10.0,
)  # fmt: skip
"""For virtual time: the defaults of most libraries are near these."""


@dataclass(frozen=True)
class Answer:
    """How a call ends: after how many seconds, and with which error."""

    seconds: float
    error: Exception | None = None

    def good(self, timing: Timing) -> bool:
        """Return whether the caller gets a result, and in time."""
        return self.error is None and self.seconds < timing.slow_after_s


Broken = Callable[[Timing, float, float], Answer]
"""Takes the timing, the seconds since the outage began, and a random number from 0 to 1 of the call."""


@dataclass(frozen=True)
class Outage:
    """A way to be broken.

    Attributes:
        name: A short name, for files and tables.
        what: What the callers see.
        broken: How the tool answers during the outage.
        total: Whether no call succeeds, and the callers can't know when that ends. Only then is a call after the outage a probe.
        one_process: Whether only the first process sees it. For the others the tool is healthy.
    """

    name: str
    what: str
    broken: Broken
    total: bool = False
    one_process: bool = False

    def affects(self, process: int) -> bool:
        """Return whether a process sees this outage."""
        return process == 0 or not self.one_process

    def answer(self, timing: Timing, process: int, at: float, draw: float) -> Answer:
        """Return how a call ends that begins ``at`` seconds after the start of the trial."""
        since = at - timing.healthy_s
        if since < 0 or not self.affects(process):
            return Answer(timing.fast_s)
        if since < timing.outage_s:
            return self.broken(timing, since, draw)
        return Answer(timing.cold_s)


def _down(timing: Timing, _since: float, _draw: float) -> Answer:
    return Answer(timing.fast_s, ToolError(503))


def _errors(timing: Timing, _since: float, draw: float) -> Answer:
    return Answer(timing.fast_s, ToolError(500) if draw < 0.3 else None)


def _slow(timing: Timing, _since: float, _draw: float) -> Answer:
    return Answer(timing.slow_s)


def _hung(timing: Timing, _since: float, _draw: float) -> Answer:
    return Answer(timing.timeout_s, TimeoutError("no answer"))


def _limited(timing: Timing, since: float, _draw: float) -> Answer:
    return Answer(timing.fast_s, ToolError(429, retry_after=round(timing.outage_s - since, 3)))


def _expired(timing: Timing, _since: float, _draw: float) -> Answer:
    return Answer(timing.fast_s, ToolError(401))


def _flapping(timing: Timing, since: float, _draw: float) -> Answer:
    down = int(since / timing.flap_s) % 2 == 0
    return Answer(timing.fast_s, ToolError(503) if down else None)


OUTAGES: Final = (
    Outage("down", "every call fails with 503", _down, total=True),
    Outage("30 % errors", "three of ten calls fail with 500", _errors),
    Outage("slow", "every call succeeds, but late", _slow),
    Outage("hung", "no call ends before its caller gives up", _hung, total=True),
    Outage("rate-limited", "every call fails with 429 and a Retry-After until the end", _limited, total=True),
    Outage("expired token", "every call fails with 401, until all processes have a new token", _expired),
    Outage("flapping", "down and up in turns, down at both ends", _flapping),
    Outage("one bad process", "every call of one process fails with 503, the others' succeed", _down, one_process=True),
)
