"""One of the real processes: it calls one tool for each outage, each in a thread of its own.

Its arguments are one object in JSON. It prints ``ready``, waits until the start file has the instant to start at, and writes its calls.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.fleet.agent import Call, Clock, run_agent
from tests.bench.fleet.outages import OUTAGES, Outage, Timing
from tests.bench.fleet.place import Place, contender

POLL_S = 0.01


def main() -> None:
    """Run this process."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    entry, timing, process = contender(given["contender"]), Timing(**given["timing"]), int(given["process"])
    place = Place(process, timing, kafka=given["kafka"], prefix=given["prefix"], redis_url=given["redis_url"])
    guard_of = entry.guards(place)
    guards = [guard_of(f"tool-{number}") for number in range(len(OUTAGES))]
    found: dict[str, list[Call]] = {}
    failures: list[BaseException] = []
    print("ready", flush=True)
    start = _start(Path(given["start"]))
    clock = Clock(lambda: time.monotonic() - start, time.sleep)

    def run(number: int, outage: Outage) -> None:
        rng = Random(f"{given['round']} {outage.name} {process}")
        try:
            found[outage.name] = run_agent(process, guards[number], entry.refusals, outage, timing, rng, clock)
        except BaseException as error:  # noqa: BLE001 - shown below, and ends the bench
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number, outage)) for number, outage in enumerate(OUTAGES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    lines = {name: [asdict(call) for call in calls] for name, calls in found.items()}
    Path(given["out"]).write_text(json.dumps(lines), encoding="utf-8")


def _start(path: Path) -> float:
    """Wait for the instant at which all processes start, and return it in seconds of the monotonic clock."""
    while not path.exists():
        time.sleep(POLL_S)
    start = float(path.read_text(encoding="utf-8"))
    time.sleep(max(0.0, start - time.monotonic()))
    return start
