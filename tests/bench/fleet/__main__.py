"""How soon a fleet refuses a broken tool, what it wastes until then, and how it finds out that the tool is back.

    python -m tests.bench.fleet [--mode real|simulated|both] [--processes 20] [--rounds 3] [--simulated 1000] [--simulated-rounds 3]
                                [--contenders switchgear,powertools] [--out bench-results]

Each process calls a tool again and again. Then the tool breaks in one of eight ways (outages.py), and recovers. The processes note each
call: whether it reached the tool, and whether it had a result in time, or would have had one. All measures (measures.py) come from
these notes. No contender is asked what it believes.

*Real*: 20 processes on this machine, with a real Kafka and a real Redis. All eight outages run at once, each with a tool of its own. The
contenders run one after the other, and each round begins with another one. *Simulated*: 1,000 processes in virtual time. The libraries'
own code runs there; a file of `contenders/` says where something takes the place of a server or a thread.

Every contender has its own rules with their defaults. Set are only the wait, one probe to close, and where there is a rule about slow calls, what
is slow. One file a contender: if yours is wrong, correct it there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench import machine
from tests.bench.fleet import real, simulated
from tests.bench.fleet.outages import OUTAGES, REAL, SIMULATED, Timing
from tests.bench.fleet.place import NAMES, contender
from tests.bench.fleet.report import Results

REPOSITORY = Path(__file__).resolve().parents[3]


def main(arguments: list[str] | None = None) -> int:
    """Run the modes, print their tables, and write JSON and plots. Return 1 if a contender could not run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=("real", "simulated", "both"), default="both")
    parser.add_argument("--processes", type=int, default=20, help="Real processes.")
    parser.add_argument("--rounds", type=int, default=3, help="Rounds with real processes: about 3.3 minutes each.")
    parser.add_argument("--simulated", type=int, default=1_000, help="Simulated processes.")
    parser.add_argument("--simulated-rounds", type=int, default=3, help="Rounds in virtual time.")
    parser.add_argument("--contenders", type=lambda text: text.split(","), default=list(NAMES))
    parser.add_argument("--out", type=Path, default=REPOSITORY / "bench-results", help="For JSON and plots.")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.contenders) - set(NAMES))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    try:
        contenders = _contenders(given.contenders)
    except ImportError as error:
        parser.error(f"{error}. Install what `make bench` installs: pip install --editable '.[bench]'")
    given.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"machine": machine.describe(), "contenders": contenders}
    print(
        f"{machine.sentence(found['machine'])}\n\n{_of_contenders(found['contenders'])}\n\n{_of_outages()}", flush=True
    )
    missing: dict[str, str] = {}
    if given.mode != "simulated":
        missing = real.left_out(given.contenders)
        names = [name for name in given.contenders if name not in missing]
        trials = real.run(names, given.processes, given.rounds)
        found["real"] = _mode("real", given.processes, REAL, trials, names, given.out)
    if given.mode != "real":
        trials = simulated.run(given.contenders, given.simulated, given.simulated_rounds, os.cpu_count() or 1)
        found["simulated"] = _mode("simulated", given.simulated, SIMULATED, trials, given.contenders, given.out)
    path = given.out / "fleet_trials.json"
    path.write_text(json.dumps(found, indent=1, allow_nan=False), encoding="utf-8")
    for name, why in missing.items():
        print(f"\nNot run with real processes: {contender(name).name}. {why}")
    return 1 if missing else 0


def _mode(
    mode: str, processes: int, timing: Timing, trials: list[dict[str, Any]], names: list[str], out: Path
) -> dict[str, Any]:
    """Print the tables of a mode, draw its plot, and return what is kept of it."""
    trials = [_plain(trial) for trial in trials]
    results = Results(trials, names)
    print(
        f"\n### {processes:,} {mode} processes\n\nIn seconds: {timing.healthy_s:g} healthy, an outage of {timing.outage_s:g} to"
        f" {timing.outage_s + timing.wait_s:g}, {timing.recovery_s:g} of recovery; a wait of {timing.wait_s}; a call of each process"
        f" every {timing.pause_s:g}; slow is {timing.slow_s:g}, callers give up after {timing.timeout_s:g}."
    )
    for table in results.tables():
        print(f"\n{table}")
    print(f"\n{results.coverage()}", flush=True)
    if not results.draw(out / f"fleet_{mode}.svg", f"{processes:,} {mode} processes"):
        print("\nNo plot: matplotlib isn't installed.")
    ratios = [_plain(each) for each in results.ratios()]
    return {"processes": processes, "timing": asdict(timing), "trials": trials, "ratios": ratios}


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with null for infinite, which JSON doesn't have."""
    return {name: None if isinstance(value, float) and math.isinf(value) else value for name, value in fields.items()}


def _contenders(names: list[str]) -> list[dict[str, str]]:
    entries = [(name, contender(name)) for name in names]
    return [
        {"file": name, "name": entry.name, "version": entry.version, "shares": entry.shares, "note": entry.note}
        for name, entry in entries
    ]


def _of_contenders(entries: list[dict[str, str]]) -> str:
    rows = [f"| {each['name']} | {each['version']} | {each['shares']} | {each['note']} |" for each in entries]
    return "\n".join(["| contender | version | its processes share | rules and settings |", "|---|---|---|---|", *rows])


def _of_outages() -> str:
    return "\n".join(
        ["| outage | what callers see |", "|---|---|", *(f"| {each.name} | {each.what} |" for each in OUTAGES)]
    )


if __name__ == "__main__":
    sys.exit(main())
