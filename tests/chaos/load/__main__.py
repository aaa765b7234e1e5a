"""A load process: ``python -m tests.chaos.load emit|guard|post --servers … --prefix … --ledger FILE [--rate …] [--clock …]``.

``emit`` and ``guard`` use the Python client, on brokers or on a gateway. ``post`` uses plain HTTP and several gateways.

``--clock SECONDS`` sets this process's wall clock wrong: it replaces ``time.time`` before the SDK is imported. The process runs until
SIGTERM, waits a moment for its open sends, and ends with exit code 0.
"""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import time
from pathlib import Path


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.load")
    parser.add_argument("kind", choices=["emit", "guard", "post"])
    parser.add_argument("--servers", nargs="+", required=True, help="Brokers, or the addresses of gateways.")
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=200.0, help="Events or guarded calls per second.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clock", type=float, default=0.0, help="Seconds that this process's wall clock is ahead.")
    return parser.parse_args()


def shift_clock(seconds: float) -> None:
    """Set ``time.time`` of this process wrong by ``seconds``."""
    right = time.time
    time.time = lambda: right() + seconds


def main() -> None:
    """Run the load until SIGTERM."""
    given = arguments()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    if given.clock:
        shift_clock(given.clock)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    if given.kind == "emit":
        from tests.chaos.load.emitting import emit  # noqa: PLC0415 - after the clock is shifted

        emit(given, stop)
    elif given.kind == "post":
        from tests.chaos.load.posting import post  # noqa: PLC0415 - after the clock is shifted

        post(given, stop)
    else:
        from tests.chaos.load.guarding import guard  # noqa: PLC0415 - after the clock is shifted

        guard(given, stop)


if __name__ == "__main__":
    main()
