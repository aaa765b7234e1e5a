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


PASS_THROUGH: Final = "PassThroughDriver"


def drivers_of(file: str) -> tuple[AdapterDriver, AdapterDriver | None]:
    """Return the first driver that a test file defines, and the one whose hooks do nothing, if the file has one."""
    module = importlib.import_module(f"tests.frameworks.{file.removesuffix('.py')}")
    found = next(
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, AdapterDriver) and each.__module__ == module.__name__
    )
    empty = vars(module).get(PASS_THROUGH)
    return found(), None if empty is None else empty()


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


async def measure(driver: AdapterDriver, empty: AdapterDriver | None) -> dict[str, object]:
    """Measure runs without and with the adapter in turns, so that a noisy moment hits both.

    Returns:
        Medians: ``bare_ns`` of the framework's bare call, ``hooks_ns`` that hooks that do nothing add (0 where they aren't known), and
        ``added_ns`` that the adapter adds to those.
    """
    gear = Switchgear.local()
    bare, hooks, added = [], [], []
    await once(driver, None)
    await once(driver, gear)
    start = time.monotonic()
    for _ in range(ROUNDS):
        without = await once(driver, None)
        passed = without if empty is None else await once(empty, gear)
        bare.append(without)
        hooks.append(passed - without)
        added.append(await once(driver, gear) - passed)
        if time.monotonic() - start > LIMIT_S:
            break
    medians = {"bare_ns": bare, "hooks_ns": hooks, "added_ns": added}
    return {**{name: statistics.median(found) for name, found in medians.items()}, "rounds": len(added)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(*drivers_of(sys.argv[1])))))
