"""Run real processes under a known load, apply faults by a seed, and check every promise.

    python -m tests.chaos [--seconds 120] [--seed N] [--brokers 3] [--rate 1500] [--only PREFIX …] [--keep]

The same with make: ``make chaos SECONDS=600 SEED=7``. The exit code is 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys

from tests.chaos.faults.all_kinds import KINDS
from tests.chaos.run import Report, Run


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=120, help="Length of load and faults.")
    parser.add_argument("--seed", type=int, default=None, help="Seed of the schedule and the load; random by default.")
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=3)
    parser.add_argument("--rate", type=float, default=1_500, help="Executions per second of all emitters.")
    parser.add_argument("--only", nargs="*", default=[""], help="Only faults whose name begins with one of these.")
    parser.add_argument("--keep", action="store_true", help="Always keep logs, ledgers and evidence.")
    return parser.parse_args()


async def interruptible(run: Run) -> Report:
    """Run. SIGTERM ends the run and everything that it started, as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run.go()


def main() -> int:
    """Run, and return the exit code."""
    given = arguments()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    kinds = {name: kind for name, kind in KINDS.items() if name.startswith(tuple(given.only))}
    if given.brokers == 1:
        kinds = {name: kind for name, kind in kinds.items() if not name.endswith("-replica")}
    run = Run(seed, given.seconds, brokers=given.brokers, rate=given.rate, kinds=kinds, keep=given.keep)
    report = asyncio.run(interruptible(run))
    if not report.held:
        print(f"FAILED with seed {seed}: make chaos SECONDS={given.seconds:g} SEED={seed}", flush=True)
    return 0 if report.held else 1


if __name__ == "__main__":
    sys.exit(main())
