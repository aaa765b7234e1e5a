"""What the family of a tool adds to the common call of its guard.

    python -m tests.bench.family_guard [--rounds 60] [--calls 20000]

Three guards of one function that does nothing take turns: of a tool without a family while families are off, of a tool whose name is in no
family, and of a tool with one. Each is measured alone (``Switchgear.local``) and with an event for Kafka, whose broker is away. The
ratio of each round is to the first guard in the same round, by CPU time of the thread. The table has the medians, without the cost of the
bare function.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from switchgear import Switchgear

NO_BROKER = "127.0.0.1:1"
GUARDS = {"families off": ("mcp:server:tool", ""), "no family": ("tool:of:none", "mcp:*:*"), "with a family": ("mcp:server:tool", "mcp:*:*")}  # fmt: skip
Contender = tuple[Callable[[], Any], Callable[[], Any]]


def nothing() -> str:
    """Do nothing."""
    return "found"


def local(tool: str, pattern: str) -> Contender:
    """Return a guard without Kafka, and what to do after a round."""
    gear = Switchgear.local(family_pattern=pattern)
    guarded = gear.guard(tool)(nothing)
    guarded()
    return guarded, lambda: None


def emitting(tool: str, pattern: str) -> Contender:
    """Return a guard that puts an event into the buffer, and what empties the buffer after a round."""
    gear = Switchgear(NO_BROKER, family_pattern=pattern, buffer_size=1_000_000)
    emitter: Any = gear._emitter
    emitter.wake = lambda urgent: None
    gear._runtime.started = True
    guarded = gear.guard(tool)(nothing)
    guarded()
    emitter.idle = False
    return guarded, emitter.buffer.items.clear


def spent(call: Callable[[], Any], calls: int) -> float:
    """Return the CPU nanoseconds of this thread per call."""
    began = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - began) / calls * 1e9


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=20_000)
    options = parser.parse_args()
    for title, make in (("alone", local), ("with an event", emitting)):
        contenders = {name: make(*guard) for name, guard in GUARDS.items()}
        costs: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(options.rounds):
            bare = spent(nothing, options.calls)
            names = list(contenders)
            for name in names[turn % 3 :] + names[: turn % 3]:
                call, after = contenders[name]
                costs[name].append(spent(call, options.calls) - bare)
                after()
        first = next(iter(costs))
        for name, found in costs.items():
            ratio = statistics.median(mine / its for mine, its in zip(found, costs[first], strict=True))
            print(f"{title}, {name}: {statistics.median(found):.0f} ns a call, {ratio:.3f} of {first}")


if __name__ == "__main__":
    main()
