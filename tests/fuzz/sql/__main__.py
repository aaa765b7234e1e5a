"""Fuzz readers' SQL: ``python -m tests.fuzz.sql [--seconds 600] [--seed N] [--walls first|second]``. ``make fuzz`` runs it too.

Each function that may not be used, in each position of the grammar, and statements composed at random from all that the engine has.
They name a file and a web server. The exit code is 1 where either was ever touched, or a file was written.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.fuzz.sql.engine import RUNNERS
from tests.fuzz.sql.run import fuzz


def main() -> int:
    """Run the fuzzer, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sql")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="Of the statements; random without.")
    parser.add_argument("--walls", choices=sorted(RUNNERS), default="first", help="The one that stands alone.")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    report = fuzz(seed, given.seconds, given.walls, said=True)
    for finding in report.findings:
        print(f"FINDING {finding}")
    for crash in report.crashes:
        print(f"crashed the engine: {crash}")
    print(report, flush=True)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
