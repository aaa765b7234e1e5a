"""Nanoseconds per call and bytes per circuit, by part. guard_speed.py compares the whole with other breakers.

    python -m tests.bench.breaker_speed

Each figure is the best of seven rounds, without the cost of the empty loop.
"""

from __future__ import annotations

import gc
import itertools
import time
import timeit
import tracemalloc
from typing import Any

from switchgear.breaker import Breaker, Result
from switchgear.guard.local_circuits import LocalBreakers
from switchgear.guard.rejections import Caller
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT

CALLS = 100_000
ROUNDS = 7


def nanoseconds(statement: str, **names: Any) -> float:
    """Return the best time of one execution without that of an empty loop."""

    def best(code: str) -> float:
        return (
            min(timeit.repeat(code, timer=time.process_time, globals=names, number=CALLS, repeat=ROUNDS)) / CALLS * 1e9
        )

    return best(statement) - best("pass")


def row(name: str, value: float, unit: str, target: str = "") -> None:
    print(f"| {name} | {value:,.0f} {unit} | {target} |", flush=True)


def ours() -> None:
    for label, policy in (("local", LOCAL_DEFAULT), ("fleet", FLEET_DEFAULT)):
        closed, result = Breaker("tool", policy, 0.0), Result(reporter="a")
        permit = closed.try_acquire(0.0)
        row(f"{label}: try_acquire, closed", nanoseconds("a(1.5)", a=closed.try_acquire), "ns", "<= 150")
        row(
            f"{label}: record, closed",
            nanoseconds("r(1.5, x, p)", r=closed.record, x=result, p=permit),
            "ns",
            "<= 1,000",
        )
        opened = Breaker("tool", policy, 0.0)
        opened.transition_to("open", 0.0, actor="bench", open_for_s=1e9)
        row(f"{label}: refusal as a value, open", nanoseconds("a(1.5)", a=opened.try_acquire), "ns", "<= 200")
    for size in (10, 60, 3600):
        breaker = Breaker("tool", FLEET_DEFAULT.model_copy(update={"sliding_window_size": size}), 0.0)
        clock = itertools.count()
        tick = nanoseconds("next(c) * 0.001", c=clock)
        cost = nanoseconds("r(next(c) * 0.001, x)", r=breaker.record, x=Result(reporter="a"), c=clock) - tick
        row(f"fleet: record, moving clock, window {size} s", cost, "ns", "constant")


def by_number_of_circuits() -> None:
    for number in (10, 100_000):
        owner = LocalBreakers(FLEET_DEFAULT, lambda: 0.0, limit=number)
        names = [f"tool-{index}" for index in range(number)]
        tracemalloc.start()
        for name in names:
            owner.get(name)
        size = tracemalloc.get_traced_memory()[0] / number
        tracemalloc.stop()
        gc.freeze()
        ask = owner.get
        cost = nanoseconds("get(n).breaker.try_acquire(1.0)", get=ask, n=names[number // 2])
        row(f"look-up and try_acquire among {number:,} circuits", cost, "ns", "constant")
        row(f"memory of an idle circuit among {number:,}", size, "bytes", "<= 6,144")
        gc.unfreeze()


def by_guard() -> None:
    """Return what the SDK does for a closed circuit: the dictionary and the lock around the breaker."""
    local = LocalBreakers(LOCAL_DEFAULT, lambda: 1.5)
    local.get("tool")
    circuits = local.circuits
    statement = "c = circuits.get('tool') or get('tool')\nwith c.lock: c.breaker.try_acquire(1.5)"
    row("guard: look-up, lock, try_acquire", nanoseconds(statement, circuits=circuits, get=local.get), "ns")
    scoped = LocalBreakers(LOCAL_DEFAULT.model_copy(update={"scope": "user"}), lambda: 1.5)
    ana = Caller(user_id="ana")
    scoped.get("tool", ana)
    row("guard: look-up of a user's circuit", nanoseconds("get('tool', ana)", get=scoped.get, ana=ana), "ns")


def sizes() -> None:
    breaker = Breaker("mcp:weather:get_forecast", FLEET_DEFAULT, 1.7e9)
    for call in range(60_000):
        breaker.record(1.7e9 + call * 0.001, Result(reporter=f"planner-{call % 9}-7f9c4d5b6-abcde"))
    row("fleet: snapshot, busy", len(breaker.snapshot()), "bytes", "<= 2,048")
    row("fleet: snapshot()", nanoseconds("s()", s=breaker.snapshot), "ns")


if __name__ == "__main__":
    print("| what | measured | target |\n|---|---|---|")
    ours()
    by_number_of_circuits()
    by_guard()
    sizes()
