"""What may be wrong with a tool, and when.

The first four are ToolMaze's two by two: a fault shows as an error or not, and passes or stays. The others are what tools of agents do
besides. Of one run, one tool is broken, from minute four to minute eleven of fifteen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import httpx

LENGTH_S: Final = 900.0
BEGINS_S: Final = 240.0
ENDS_S: Final = 660.0
LIMIT_S: Final = 30.0
"""A client of a tool gives up after this time, in every arm."""
SLOW_S: Final = 20.0
MINUTE_S: Final = 60.0


class Failed:
    """Makes the errors of calls, as clients of tools raise them."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        self._status, self._text, self._headers = status, text, headers or {}

    def __call__(self) -> Exception:
        request = httpx.Request("POST", "https://tool.example/call")
        response = httpx.Response(self._status, headers=self._headers, request=request)
        return httpx.HTTPStatusError(f"{self._status} {self._text}", request=request, response=response)


def refused_connection() -> Exception:
    """Return the error of a tool whose server is down."""
    return httpx.ConnectError("connection refused")


def timed_out() -> Exception:
    """Return the error of a call that was given up after ``LIMIT_S``."""
    return TimeoutError(f"no answer within {LIMIT_S:.0f} s")


@dataclass(frozen=True, slots=True)
class Hit:
    """What a fault does to one call: how long it takes and how it ends. Without an error it is answered, perhaps wrongly."""

    seconds: float | None = None
    """None: as long as a healthy call."""
    error: Callable[[], Exception] | None = None
    wrong: bool = False


@dataclass
class Fault:
    """A fault of one tool. Make a new one for each run.

    Attributes:
        name: As in the tables.
        sentence: What it is.
        hit: What it does to a call.
        share: The share of the calls that it hits.
    """

    name: str
    sentence: str
    hit: Hit
    share: float = 1.0

    def of(self, now: float, task: object, rng: Random) -> Hit | None:
        """Return what happens to a call that begins ``now`` for a task; None if it is answered as always."""
        return self.hit if rng.random() < self.share else None

    def would_answer(self, now: float) -> float:
        """Return the probability that a call which begins ``now`` would be answered as always."""
        return 1.0 - self.share


@dataclass
class Quota(Fault):
    """The tool takes ``a_minute`` calls in each minute, from all agents together. It refuses the others until the next one."""

    a_minute: int = 1
    _taken: Counter[int] = field(default_factory=Counter)

    def of(self, now: float, task: object, rng: Random) -> Hit | None:
        minute = int(now // MINUTE_S)
        if self._taken[minute] < self.a_minute:
            self._taken[minute] += 1
            return None
        wait = f"{(minute + 1) * MINUTE_S - now:.0f}"
        return Hit(0.05, Failed(429, f"too many requests, retry after {wait} s", {"retry-after": wait}))

    def would_answer(self, now: float) -> float:
        return float(self._taken[int(now // MINUTE_S)] < self.a_minute)


@dataclass
class Schema(Fault):
    """The tool's parameters have changed. The first call of each task is rejected, and the agent knows better from then on."""

    _knows: set[object] = field(default_factory=set)

    def of(self, now: float, task: object, rng: Random) -> Hit | None:
        if task in self._knows:
            return None
        self._knows.add(task)
        return self.hit

    def would_answer(self, now: float) -> float:
        return 1.0


Make = Callable[[float], Fault | None]
"""Makes a fault, from the calls a minute that all agents together would make of the tool."""

FAULTS: Final[dict[str, Make]] = {
    "none": lambda _: None,
    "explicit, transient": lambda _: Fault(
        "explicit, transient", "half of the calls fail with 503", Hit(0.2, Failed(503, "service unavailable")), 0.5
    ),
    "explicit, permanent": lambda _: Fault(
        "explicit, permanent", "every call is refused by its server", Hit(0.05, refused_connection)
    ),
    "implicit, transient": lambda _: Fault(
        "implicit, transient", "half of the answers are wrong, and nothing says so", Hit(wrong=True), 0.5
    ),
    "implicit, permanent": lambda _: Fault(
        "implicit, permanent", "every answer is wrong, and nothing says so", Hit(wrong=True)
    ),
    "slow": lambda _: Fault("slow", f"answers are right, after {SLOW_S:.0f} s", Hit(SLOW_S)),
    "hung": lambda _: Fault("hung", f"no answer; the client gives up after {LIMIT_S:.0f} s", Hit(LIMIT_S, timed_out)),
    "quota": lambda calls: Quota(
        "quota", "429 above half of the usual calls a minute", Hit(), a_minute=max(1, round(calls / 2))
    ),
    "expired token": lambda _: Fault(
        "expired token", "401 for the one token that all agents share", Hit(0.1, Failed(401, "token expired"))
    ),
    "changed schema": lambda _: Schema(
        "changed schema",
        "422 for the first call of each task",
        Hit(0.1, Failed(422, "invalid arguments: unknown field, see the new schema")),
    ),
}
"""By name. ``none`` is a day without an outage: only one call in a hundred fails."""
