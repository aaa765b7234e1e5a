"""One load process: ``python -m tests.chaos.load emit|guard --bootstrap … --prefix … --ledger FILE [--rate …] [--clock …]``.

``--clock SECONDS`` sets this process's wall clock off by so much: ``time.time`` is replaced before anything of the SDK is imported.
It runs until SIGTERM, then waits a moment for what is still on its way and ends with 0.
"""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import time
from pathlib import Path


def arguments() -> argparse.Namespace:
    """The arguments of a load process."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.load")
    parser.add_argument("kind", choices=["emit", "guard"])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=200.0, help="Events, or guarded calls, a second.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clock", type=float, default=0.0, help="Seconds that this process's wall clock is ahead.")
    return parser.parse_args()


def shift_clock(seconds: float) -> None:
    """Set ``time.time`` of this process off."""
    right = time.time
    time.time = lambda: right() + seconds


def main() -> None:
    """Run one."""
    given = arguments()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    if given.clock:
        shift_clock(given.clock)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    if given.kind == "emit":
        from tests.chaos.load.emitting import emit  # noqa: PLC0415 - after the clock was set

        emit(given, stop)
    else:
        from tests.chaos.load.guarding import guard  # noqa: PLC0415 - likewise

        guard(given, stop)


if __name__ == "__main__":
    main()
