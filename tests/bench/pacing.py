"""Twenty processes and a server with a quota: calls taken, refused by the server, waited for and given up.

    python -m tests.bench.pacing [--processes 20] [--calls 300] [--period 10] [--demand 75] [--seconds 60]

The arms run one after the other, with the same processes and the same demand, each with a quota of its own: no pacing; circuits alone;
a limit in each process (the quota divided by the number of processes); the fleet's pace, learned from 429s without Retry-After; and the
fleet's pace, stated. Four in ten processes want to call at a time, and others of them every seven seconds. All call without waiting for
earlier calls. Broker, worker, server and processes share the machine. Exit code 1 if the fleet's pace made more than a tenth more calls
than the quota in any of its periods, from 30 s on where it is learned.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from switchgear_cli.topics import ensure_topics
from tests.bench.targets import exit_code
from tests.support.kafka import running_kafka
from tests.support.paced_fleet import IN_WORDS, Arm, Found, policy_text, run
from tests.support.processes import switchgear

ARMS: Final[list[Arm]] = ["nothing", "circuits", "own", "learned", "stated"]
CONVERGES_S: Final = 30.0
MOST: Final = 1.1


def line(found: Found) -> str:
    """Return a row of the table."""
    waits = found.waits
    half, most = (waits[len(waits) // 2], waits[-1]) if waits else (0.0, 0.0)
    return (
        f"| {IN_WORDS[found.arm]} | {found.asked:,} | {found.taken:,} | {found.used(CONVERGES_S):.0%} | {found.refused:,} |"
        f" {found.given_up:,} | {len(waits):,} | {half:.2f}, {most:.2f} | {found.fullest():.0%} | {found.fullest(CONVERGES_S):.0%} |"
    )


def measure(given: argparse.Namespace) -> list[Found]:
    """Start broker, worker and processes, and run every arm."""
    with running_kafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "policies.toml").write_text(policy_text(given.calls, given.period))
        settings = kafka.settings(policy_file=folder / "policies.toml")
        asyncio.run(ensure_topics(settings))
        with switchgear("worker", log=folder / "worker.log", settings=settings) as worker:
            worker.wait_for_output("ready  ")
            return asyncio.run(
                run(
                    settings,
                    folder,
                    ARMS,
                    processes=given.processes,
                    calls=given.calls,
                    period_s=given.period,
                    demand=given.demand,
                    length_s=given.seconds,
                )
            )


def main() -> int:
    """Print the table; exit code 3 if the quota was not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--calls", type=int, default=300, help="of a period")
    parser.add_argument("--period", type=float, default=10.0, help="in seconds")
    parser.add_argument("--demand", type=float, default=75.0, help="calls a second that all processes want to make")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of an arm")
    given = parser.parse_args()
    results = measure(given)
    print(
        f"{given.processes} processes; the server takes {given.calls} calls in any {given.period:g} s."
        f" From {CONVERGES_S:g} s on: used, and the right-most column.\n"
    )
    print(
        "| | asked | taken | of the quota | refused by the server | given up | waited | wait p50, longest s |", end=""
    )
    print(" fullest period | later |\n|---|---|---|---|---|---|---|---|---|---|")
    for found in results:
        print(line(found))
    kept = {found.arm: found for found in results}
    return exit_code(met=all(kept[name].fullest(CONVERGES_S) <= MOST for name in ("learned", "stated")))


if __name__ == "__main__":
    sys.exit(main())
