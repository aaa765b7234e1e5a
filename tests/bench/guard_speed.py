"""What a guard adds to a call: sync and async, closed and open, alone and with the event sent to Kafka, beside other breakers.

    python -m tests.bench.guard_speed [--calls 10000] [--no-kafka]

Every breaker opens after five failures in a row, and guards a function (or coroutine function) that does nothing. Its own cost is
subtracted. Costs are CPU time of the calling thread. The contenders take turns for twenty rounds, and the best round of each counts, so
other load on the machine affects all of them equally. A refusal is measured as the caller gets it, such as an exception that is raised and
caught. "in of 50": fifty callers ask at the same moment after the wait, while the function takes a tenth of a second. Each that gets in
reaches a tool whose health is not known yet. The last rows are parts of our guard, for comparison.

The second table is our guard with Kafka: calls in bursts of 2,000 with pauses of 20 ms, ten rounds of five bursts. It shows the cost for the
calling thread, and the cost for all threads of the process until the last event is acknowledged: the best round, and the median in
brackets. The number of acknowledged events is checked. No peer does this. The bare sketch (decide, take the time, enqueue a tuple) is the
least that the first can cost.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from switchgear import BreakerPolicy, Switchgear
from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind
from switchgear_cli.topics import ensure_topics
from tests.bench.peers import FAILURES, PEERS, WAIT_S, Guard, Maker, anothing, let_through, nothing, opened
from tests.bench.targets import exit_code
from tests.support.kafka import running_kafka

ROUNDS = 20
CALLS = 2_000
LONG_S = 3_600.0
BURST = 2_000
PAUSE_S = 0.02
KAFKA_ROUNDS = 10
LIMIT_S = 60.0
Call = Callable[[], Any]


def _policy(wait_s: float) -> BreakerPolicy:
    return BreakerPolicy(consecutive_failures=FAILURES, wait_duration_in_open_state_s=wait_s)


def switchgear_local(wait_s: float) -> Guard:
    """Guard with the SDK, without Kafka."""
    return Switchgear.local(local_policies=_policy(wait_s)).guard("tool")


def switchgear_value(wait_s: float) -> Guard:
    """Guard with ``try_acquire``, whose refusal is a value."""
    gear = Switchgear.local(local_policies=_policy(wait_s))

    def guard(function: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            permit = gear.try_acquire("tool")
            if not permit:
                return permit
            try:
                answer = function()
            except Exception as error:
                permit.failure(error)
                raise
            permit.success()
            return answer

        return call

    return guard


def switchgear_core(wait_s: float) -> Guard:
    """Guard with the pure breaker alone, without a lock."""
    breaker = Breaker("tool", _policy(wait_s), 0.0)
    ok, bad = Result(), Result(ResultKind.FAILURE)

    def guard(function: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            permit = breaker.try_acquire(time.monotonic())
            if not isinstance(permit, BreakerPermit):
                return permit
            try:
                answer = function()
            except Exception:
                breaker.record(time.monotonic(), bad, permit)
                raise
            breaker.record(time.monotonic(), ok, permit)
            return answer

        return call

    return guard


PARTS: dict[str, Maker] = {"Switchgear: try_acquire": switchgear_value, "Switchgear: the pure core": switchgear_core}
"""Parts of the guard. They are in the table for comparison, and do not compete."""


def timed(call: Call, calls: int) -> float:
    """Return the CPU seconds of this thread for ``calls`` calls. Their errors are ignored."""
    began = time.thread_time()
    for _ in range(calls):
        try:  # noqa: SIM105 - suppress() would be measured too
            call()
        except Exception:  # noqa: BLE001 - a refusal
            pass
    return time.thread_time() - began


async def atimed(call: Call, calls: int) -> float:
    """Measure as :func:`timed` does, with awaited calls."""
    began = time.thread_time()
    for _ in range(calls):
        try:  # noqa: SIM105 - suppress() would be measured too
            await call()
        except Exception:  # noqa: BLE001 - a refusal
            pass
    return time.thread_time() - began


def refused(make: Maker, asynchronous: bool) -> Call:
    """Return a guarded function behind an open circuit."""
    guard = make(LONG_S)
    opened(guard, asynchronous)
    return guard(anothing if asynchronous else nothing)


def best_of_rounds(contenders: dict[str, Call], asynchronous: bool) -> dict[str, float]:
    """Return the nanoseconds per call of each contender. The bare function has the name ""."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            spent = asyncio.run(atimed(call, CALLS)) if asynchronous else timed(call, CALLS)
            best[name] = min(best[name], spent / CALLS * 1e9)
    return best


def decisions() -> bool:
    """Print the first table. Return whether our guard is the fastest everywhere, and lets one probe through."""
    makers: dict[str, tuple[Maker | None, Maker | None]] = {"Switchgear": (switchgear_local, switchgear_local)}
    for name, peer in PEERS.items():
        if peer.version is None:
            print(f"{name} is not installed: pip install {peer.distribution}")
            return False
        makers[f"{name} {peer.version}"] = (peer.sync, peer.coroutine)
    makers |= {name: (make, None) for name, make in PARTS.items()}
    columns: list[dict[str, float]] = []
    for asynchronous in (False, True):
        able = {name: pair[asynchronous] for name, pair in makers.items()}
        bare = anothing if asynchronous else nothing
        closed = {name: make(LONG_S)(bare) for name, make in able.items() if make is not None}
        found = best_of_rounds({"": bare, **closed}, asynchronous)
        columns.append({name: cost - found[""] for name, cost in found.items() if name})
        refusing = {name: refused(make, asynchronous) for name, make in able.items() if make is not None}
        columns.append(best_of_rounds(refusing, asynchronous))
    print("| breaker | closed, ns | open, ns | async closed, ns | async open, ns | in of 50 threads | in of 50 tasks |")
    print("|---|---|---|---|---|---|---|")
    let_in: dict[str, list[int | None]] = {}
    for name, pair in makers.items():
        let_in[name] = [
            None if make is None else let_through(make(WAIT_S), bool(kind)) for kind, make in enumerate(pair)
        ]
        cells = [column.get(name) for column in columns]
        shown = [*("-" if cell is None else f"{cell:,.0f}" for cell in cells), *map(_number, let_in[name])]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)
    competing = [{name: cost for name, cost in column.items() if name not in PARTS} for column in columns]
    ahead = [min(column, key=column.__getitem__) for column in competing]
    for title, first in zip(("closed", "open", "async closed", "async open"), ahead, strict=True):
        if first != "Switchgear":
            print(f"\nFaster than Switchgear, {title}: {first}.")
    return all(first == "Switchgear" for first in ahead) and let_in["Switchgear"] == [1, 1]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def sketch() -> Call:
    """Return the least that a guard must do: decide, take the time twice, call, enqueue."""
    open_circuits: dict[str, float] = {}
    kept: deque[Any] = deque(maxlen=10_000)
    clock, function = time.monotonic, nothing

    def call() -> None:
        if open_circuits.get("tool") is None:
            began = clock()
            function()
            kept.append(("tool", began, clock(), 0))

    return call


def in_bursts(call: Call, calls: int) -> float:
    """Return the CPU seconds of this thread for ``calls`` calls in bursts."""
    spent = 0.0
    for _ in range(calls // BURST):
        spent += timed(call, BURST)
        time.sleep(PAUSE_S)
    return spent


async def ain_bursts(call: Call, calls: int) -> float:
    """Measure as :func:`in_bursts` does, with awaited calls."""
    spent = 0.0
    for _ in range(calls // BURST):
        spent += await atimed(call, BURST)
        await asyncio.sleep(PAUSE_S)
    return spent


def with_kafka(calls: int) -> bool:
    """Print the second table. Return whether every event was acknowledged."""
    rows: list[tuple[str, str, str, str]] = []
    complete = True
    with running_kafka() as kafka:
        settings = kafka.settings()
        asyncio.run(ensure_topics(settings))
        with Switchgear(kafka.bootstrap, topic_prefix=settings.topic_prefix, service="bench") as gear:
            assert gear.start(LIMIT_S)
            for asynchronous in (False, True):
                bare = anothing if asynchronous else nothing
                guarded: Call = gear.guard("mcp:weather:get_forecast")(bare)

                def run(call: Call, number: int, asynchronous: bool = asynchronous) -> float:
                    return asyncio.run(ain_bursts(call, number)) if asynchronous else in_bursts(call, number)

                run(guarded, 4 * BURST)
                assert gear.flush(LIMIT_S)
                before = _acknowledged(gear)
                owns, wholes = [], []
                for _ in range(KAFKA_ROUNDS):
                    own_bare, whole_bare = _spent(lambda: run(bare, calls), gear)  # noqa: B023 - called at once
                    own, whole = _spent(lambda: run(guarded, calls), gear)  # noqa: B023 - called at once
                    owns.append((own - own_bare) / calls * 1e9)
                    wholes.append((whole - whole_bare) / calls * 1e9)
                arrived = _acknowledged(gear) - before
                complete = complete and arrived == calls * KAFKA_ROUNDS
                kind = "async, closed" if asynchronous else "closed"
                rows.append(
                    (kind, _best_and_median(owns), _best_and_median(wholes), f"{arrived} of {calls * KAFKA_ROUNDS}")
                )
            opened(gear.guard("down"), asynchronous=False)
            down: Call = gear.guard("down")(nothing)
            before = _acknowledged(gear)
            spent = [_spent(lambda: in_bursts(down, calls), gear) for _ in range(KAFKA_ROUNDS)]
            owns, wholes = ([each[part] / calls * 1e9 for each in spent] for part in (0, 1))
            acknowledged = f"{_acknowledged(gear) - before} for {calls * KAFKA_ROUNDS} refusals"
            rows.append(("open", _best_and_median(owns), _best_and_median(wholes), acknowledged))
    bare_sketch = [timed(sketch(), CALLS) / CALLS * 1e9 for _ in range(ROUNDS)]
    rows.append(("a bare sketch, closed", _best_and_median(bare_sketch), "-", "-"))
    print("\n| with the event sent to Kafka | calling thread, ns a call | all threads, ns a call | acknowledged |")
    print("|---|---|---|---|")
    for kind, own, whole, arrived_of in rows:
        print(f"| {kind} | {own} | {whole} | {arrived_of} |")
    return complete


def _best_and_median(nanoseconds: list[float]) -> str:
    return f"{min(nanoseconds):,.0f} ({statistics.median(nanoseconds):,.0f})"


def _spent(work: Callable[[], float], gear: Switchgear) -> tuple[float, float]:
    """Return the CPU seconds of the calling thread, and those of the process until everything is acknowledged."""
    began = time.process_time()
    own = work()
    if not gear.flush(LIMIT_S):
        raise TimeoutError("Kafka did not acknowledge every event in time")
    return own, time.process_time() - began


def _acknowledged(gear: Switchgear) -> int:
    status = gear.status().emitter
    assert status is not None
    return status.acknowledged


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; exit code 3 if another breaker is faster or more than one probe went, 1 if an event is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.guard_speed")
    parser.add_argument("--calls", type=int, default=10_000, help="Guarded calls of each kind with Kafka, per round.")
    parser.add_argument("--no-kafka", action="store_true", help="Only the first table.")
    given = parser.parse_args(arguments)
    first = decisions()
    complete = given.no_kafka or with_kafka(given.calls // BURST * BURST)
    return exit_code(met=first) if complete else 1


if __name__ == "__main__":
    sys.exit(main())
