"""What families cost the worker: the time to fold an event with and without them, as a ratio.

    python -m tests.bench.family_fold [--events 20000] [--tools 200] [--per-server 8] [--rounds 15]

Servers with one tool each cost the most: every tool's row has a family's beside it, and runs of successes are short. Both folds get the same events, in turns, in batches of 500 with the rows written between. The ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time

from switchgear.fleet import FleetFold, Message
from switchgear.policies import PolicySet
from switchgear_schemas.families import DEFAULT_PATTERN
from tests.bench.targets import exit_code

BATCH = 500
PARTITIONS = 1
MOST = 1.2


def events(count: int, tools: int, per_server: int) -> list[bytes]:
    """Return events like those of ``worker_bench``, of servers with several tools."""
    chance = random.Random(1)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return [
        json.dumps(
            {
                "metric_id": f"0190c7f0-0000-7000-8000-{number:012x}",
                "tool_name": f"mcp:server-{number % tools // per_server}:call-{number % tools % per_server}",
                "status": "error" if chance.random() < 0.02 else "success",
                "execution_time_ms": chance.random() * 1000,
                "emitter_id": f"planner@host-{number % 20}",
                "session_id": f"s{number % 500}",
                "generation": 0,
                "family_generation": 0,
                "recorded_at": now,
            }
        ).encode()
        for number in range(count)
    ]


class Contender:
    """A fold with its table."""

    def __init__(self, family_pattern: str) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.offset = 0
        self.fold = FleetFold(
            self.rows, PolicySet(), partitions=PARTITIONS, late_after_s=1e9, family_pattern=family_pattern
        )

    def run(self, values: list[bytes]) -> float:
        """Fold the events, and return the microseconds of processor time per event."""
        stamp = time.time_ns() // 1_000_000
        records = [
            Message("executions", 0, self.offset + number, stamp, None, value) for number, value in enumerate(values)
        ]
        self.offset += len(records)
        started = time.process_time()
        for at in range(0, len(records), BATCH):
            self.fold.executions(records[at : at + BATCH])
            for key, (_, row) in self.fold.take().rows.items():
                if row is not None:
                    self.rows[key] = row
        return (time.process_time() - started) / len(records) * 1e6


def main() -> int:
    """Print the medians and their ratio. The exit code is 3 if families cost more than a fifth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--tools", type=int, default=200)
    parser.add_argument("--per-server", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    values = events(given.events, given.tools, given.per_server)
    without, with_families = Contender(""), Contender(DEFAULT_PATTERN)
    times: dict[Contender, list[float]] = {without: [], with_families: []}
    for number in range(given.rounds):
        for contender in (without, with_families) if number % 2 else (with_families, without):
            times[contender].append(contender.run(values))
    plain, families = (statistics.median(times[each][1:]) for each in (without, with_families))
    print(f"without families {plain:.2f} µs, with them {families:.2f} µs an event: {families / plain:.2f} times")
    return exit_code(met=families <= MOST * plain)


if __name__ == "__main__":
    sys.exit(main())
