"""Simulate agents with and without breakers, and write the tables.

python -m tests.bench.benefit [--fetch] [--seeds N] [--out DIR]
python -m tests.bench.benefit --live openai|anthropic --model NAME [--url URL] …
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.bench.benefit import wheels, worlds
from tests.bench.benefit.arms import arms
from tests.bench.benefit.faults import FAULTS
from tests.bench.benefit.live.options import add_options
from tests.bench.benefit.live.run import live
from tests.bench.benefit.plan import Plan
from tests.bench.benefit.report import tables
from tests.bench.benefit.results import Results
from tests.bench.benefit.side_by_side import outcomes
from tests.support.costs import spent

OUT: Final = wheels.FOLDER.parent
_PACKAGES: Final = ("circuitbreaker", "purgatory", "tenacity", "httpx")


def main(arguments: list[str] | None = None) -> int:
    """Run, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.benefit", description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="Download the tasks that are missing.")
    parser.add_argument("--seeds", type=int, default=Plan.seeds, help="Seeds of the tables of all faults.")
    parser.add_argument("--out", type=Path, default=OUT, help="Where benefit_runs.json is written.")
    add_options(parser)
    given = parser.parse_args(arguments)
    if given.fetch:
        wheels.fetch()
    if given.live:
        return live(given)
    return simulated(Plan(seeds=given.seeds), given.out)


def simulated(plan: Plan, out: Path) -> int:
    """Run a plan, print the tables, write the runs, and return the exit code."""
    found, missing = worlds.load()
    here = [arm for arm in arms().values() if arm.here]
    missing += [f"Without {arm.name}: there is no {arm.needs}." for arm in arms().values() if arm not in here]
    print("\n".join(missing))
    if not found:
        return 1
    results, names = Results(), [arm.name for arm in here]
    for cell, world, outcome in outcomes(plan.cells(names), worlds.here):
        results.add(cell, world, outcome)
    print("Real tasks, simulated agents. In brackets: 95 % intervals over seeds.\n")
    print("\n".join(f"* {arm.name}: {arm.sentence}." for arm in here), "\n")
    print("\n".join(f"* {name}: {_sentence(name)}." for name in FAULTS))
    for text in tables(results, names):
        print(f"\n{text}")
    print(
        f"\n{len(results.runs):,} runs, {spent():.0f} s of one core. Worlds: {', '.join(each.name for each in found)}."
    )
    out.mkdir(parents=True, exist_ok=True)
    written = {"of": _versions(), "runs": [run.as_json() for run in results.runs]}
    (out / "benefit_runs.json").write_text(json.dumps(written, indent=1), encoding="utf-8")
    return 0


def _sentence(name: str) -> str:
    fault = FAULTS[name](1.0)
    return "nothing breaks" if fault is None else fault.sentence


def _versions() -> dict[str, Any]:
    """Return what the figures depend on."""
    found = {name: metadata.version(name) for name in _PACKAGES if find_spec(name)}
    return {"python": platform.python_version(), "machine": platform.machine(), **found}


if __name__ == "__main__":
    sys.exit(main())
