"""Fuzz the topics: ``python -m tests.fuzz.messages [--seconds 600] [--seed N]``. ``make fuzz`` runs it too.

A fifth of the time goes to the fold and the decoders in this process, the rest to a running system. The exit code is 1 with a finding.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

import structlog

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from tests.fuzz.messages.folded import fold
from tests.fuzz.messages.running import fuzz, settings_for
from tests.support.kafka import running_kafka


def main() -> int:
    """Run the fuzzer, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.messages")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="Of the messages; random without.")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    folded = fold(seed, given.seconds / 5)
    print(folded, flush=True)
    with running_kafka() as kafka, tempfile.TemporaryDirectory(prefix="switchgear-messages-") as name:
        folder = Path(name)

        def make(**overrides: Any) -> Settings:
            settings = kafka.settings(**overrides)
            asyncio.run(ensure_topics(settings))
            return settings

        ran = asyncio.run(fuzz(settings_for(make, folder), seed, given.seconds * 4 / 5, folder))
    print(ran, flush=True)
    for finding in [*folded.findings, *ran.findings]:
        print(f"FINDING {finding}")
    return 1 if folded.findings or ran.findings else 0


if __name__ == "__main__":
    sys.exit(main())
