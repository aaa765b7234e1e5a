"""How long a tool that hangs goes on being called: from its first call that never ends until its circuit is open.

A trial takes a tool and a call of it in a history. Before it the tool's calls are as recorded, and from it on none of them ends. One
whose call hangs makes no other call. The time is counted in units of the policy's threshold for slow calls. No rule can open before
enough calls have hung for that long, so the time from the last one that is needed is shown as well.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from switchgear import Switchgear
from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.testing import FakeClock, InMemoryFleet
from switchgear_schemas.policy import BreakerPolicy
from tests.bench.evidence_history import SEED, Call, busiest
from tests.support.local_client import local_client

TOOLS: Final = 5
"""Trials are made with so many tools, those with the most calls."""
PLACES: Final = 4
"""Trials of each tool."""
NEEDED: Final = 5
"""So many of the last ten calls must be slow."""
BEFORE: Final = 40
"""Recorded calls before the first one that hangs. The window holds ten."""
GIVE_UP: Final = 20.0
"""A trial ends after this many thresholds."""
LOOKS: Final = 50
"""How often a process looks whether the circuit is open, for each threshold."""
_ENDS, _BEGINS, _ENDS_AT_ONCE, _LOOKS = range(4)
"""What happens at one moment, in this order."""
OFF: Final = BreakerPolicy(mode="disabled")


@dataclass(frozen=True)
class Trial:
    """Calls of one tool, the good ones and then those that hang. Times are seconds from the first one on."""

    tool: str
    good: tuple[Call, ...]
    hung: tuple[Call, ...]
    slow_s: float

    @property
    def policy(self) -> BreakerPolicy:
        return BreakerPolicy(
            slow_call_duration_threshold_ms=self.slow_s * 1000,
            slow_call_rate_threshold=0.5,
            minimum_number_of_calls=NEEDED,
            sliding_window_type="count",
            sliding_window_size=2 * NEEDED,
        )

    @property
    def begins(self) -> float:
        return self.hung[0].began

    @property
    def gives_up(self) -> float:
        return self.begins + GIVE_UP * self.slow_s


def trials(calls: list[Call], slow_s: float, *, seed: int = SEED) -> list[Trial]:
    """Return seeded trials of a history's busiest tools. Those in which too few calls come to open any circuit are left out."""
    draw = random.Random(seed)
    ordered = sorted(calls, key=lambda call: call.began)
    found = []
    for tool in busiest(calls, TOOLS):
        own = [call for call in ordered if call.tool == tool]
        for _ in range(PLACES):
            place = int(draw.uniform(0.25, 0.6) * len(own))
            good = tuple(call for call in own[max(0, place - BEFORE) : place] if call.seconds < slow_s)
            hung = tuple(_hung(own[place:], slow_s))
            if good and len(hung) >= NEEDED:
                found.append(Trial(tool, good, hung, slow_s))
    return found


def _hung(calls: list[Call], slow_s: float) -> Iterator[Call]:
    waiting: set[str] = set()
    for call in calls:
        if call.began > calls[0].began + GIVE_UP * slow_s:
            return
        if call.waits not in waiting:
            waiting.add(call.waits)
            yield call


def breaker_opens(trial: Trial) -> float | None:
    """Return when a breaker opens that is told of each overdue call at once."""
    overdue = getattr(ResultKind, "OVERDUE", None)
    if overdue is None:
        return None
    told = [(call.ended, Result(ResultKind.SUCCESS, call.seconds * 1000)) for call in trial.good]
    told += [(call.began + trial.slow_s, Result(overdue, trial.slow_s * 1000)) for call in trial.hung]
    breaker = Breaker(trial.tool, trial.policy, trial.good[0].began)
    for at, result in sorted(told, key=lambda one: one[0]):
        if breaker.record(at, result) is not None:
            return at
    return None


def local_opens(trial: Trial) -> float | None:
    """Return when the circuit of one process opens that makes all the calls."""
    clock = FakeClock()
    gear = local_client(clock.monotonic, local_policies=trial.policy)
    return _opens(trial, lambda _: gear, gear, clock.advance)


def fleet_opens(trial: Trial) -> float | None:
    """Return when a process that makes no call learns that the fleet's circuit is open. The others' own circuits are off."""
    fleet = InMemoryFleet(trial.policy)
    gears: dict[str, Switchgear] = {}

    def of_process(name: str) -> Switchgear:
        if name not in gears:
            gears[name] = fleet.gear(local_policies=OFF)
        return gears[name]

    return _opens(trial, of_process, of_process("looks on"), fleet.advance)


def _opens(
    trial: Trial, gear_of: Callable[[str], Switchgear], looks_on: Switchgear, advance: Callable[[float], None]
) -> float | None:
    """Make the calls of a trial through guards. Return when ``looks_on`` would be refused."""
    calls = trial.good + trial.hung
    moments = [(call.began, _BEGINS, place) for place, call in enumerate(calls)]
    moments += [(call.ended, _ENDS if call.seconds else _ENDS_AT_ONCE, place) for place, call in enumerate(trial.good)]
    moments += [(trial.begins + look * trial.slow_s / LOOKS, _LOOKS, look) for look in range(int(GIVE_UP * LOOKS) + 1)]
    now = min(moments)[0]
    under_way = {}
    for at, what, place in sorted(moments):
        advance(max(0.0, at - now))
        now = max(now, at)
        if what == _BEGINS:
            under_way[place] = gear_of(calls[place].process).try_acquire(trial.tool)
        elif what == _LOOKS:
            if looks_on.is_open(trial.tool):
                return now
        elif permit := under_way.pop(place):
            permit.success(duration_ms=calls[place].seconds * 1000)
    return None


WAYS: Final[dict[str, Callable[[Trial], float | None]]] = {
    "a breaker that is told at once": breaker_opens,
    "one process": local_opens,
    "a fleet, seen by another process": fleet_opens,
}


def times_to_open(calls: list[Call], slow_s: float) -> dict[str, list[str]]:
    """Return for each way of deciding: the median and the longest time to open since the first hung call, and the longest since the
    last one that is needed, in thresholds."""
    made = trials(calls, slow_s)
    return {name: shown([(trial, way(trial)) for trial in made]) for name, way in WAYS.items()}


def shown(found: list[tuple[Trial, float | None]]) -> list[str]:
    """Return the cells of a row."""
    opened = [(trial, at) for trial, at in found if at is not None]
    if not opened:
        return ["never", "never"]
    since_first = [(at - trial.begins) / trial.slow_s for trial, at in opened]
    since_needed = [(at - trial.hung[NEEDED - 1].began) / trial.slow_s for trial, at in opened]
    never = len(found) - len(opened)
    note = f" ({never} of {len(found)} never)" if never else ""
    return [f"{statistics.median(since_first):.2f}, {max(since_first):.2f}{note}", f"{max(since_needed):.2f}"]
