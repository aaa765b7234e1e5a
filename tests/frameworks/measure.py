"""What an adapter adds to a tool call. Runs in the environment of its framework; `tests.bench.adapters` starts it.

python -m tests.frameworks.measure FILE      prints one line of JSON
"""

from __future__ import annotations

import asyncio
import importlib
import json
import statistics
import sys
import time
from typing import Final

from switchgear import Switchgear
from switchgear.testing.adapter_suite import AdapterDriver, SuiteCall, SuiteTool

CALLS: Final = 30
"""Tool calls of one run, one after the other. A framework's start of a run is spread over them."""
ROUNDS: Final = 15
LIMIT_S: Final = 240.0


def driver_of(file: str) -> AdapterDriver:
    """Return the first driver that a test file defines."""
    module = importlib.import_module(f"tests.frameworks.{file.removesuffix('.py')}")
    found = next(
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, AdapterDriver) and each.__module__ == module.__name__
    )
    return found()


async def once(driver: AdapterDriver, gear: Switchgear | None) -> float:
    """Return the nanoseconds of processor time of one tool call, with all of the framework's work around it."""
    tool = SuiteTool()
    turns = [(SuiteCall(arguments={"city": f"Oslo {number}"}),) for number in range(CALLS)]
    start = time.process_time_ns()
    run = await driver.run(gear, [tool], turns)
    took = time.process_time_ns() - start
    if len(tool.calls) != CALLS or run.error is not None:
        raise RuntimeError(f"The run made {len(tool.calls)} calls and ended with {run.error!r}.")
    return took / CALLS


async def measure(driver: AdapterDriver) -> dict[str, object]:
    """Measure runs without and with the adapter in turns, so that a noisy moment hits both."""
    gear = Switchgear.local()
    bare, added = [], []
    await once(driver, None)
    await once(driver, gear)
    start = time.monotonic()
    for _ in range(ROUNDS):
        without = await once(driver, None)
        bare.append(without)
        added.append(await once(driver, gear) - without)
        if time.monotonic() - start > LIMIT_S:
            break
    return {"bare_ns": statistics.median(bare), "added_ns": statistics.median(added), "rounds": len(added)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(driver_of(sys.argv[1])))))
