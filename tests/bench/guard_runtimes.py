"""What a guarded call costs in the best-known breakers of other languages, each on its own runtime, beside our guard on Python.

    python -m tests.bench.guard_runtimes [--rounds 3]

opossum (Node), gobreaker (Go) and resilience4j (Java) open after five failures, and guard a function that does nothing. Each prints
twenty figures a run, in nanoseconds of processor time a call, without those of a bare call: of its calling thread, or for Node of
its process. The contenders take turns for several rounds. The first half of each run warms up the runtime and doesn't count.

The figures say what a user of each language pays. They don't compare designs: a call of Python's interpreter takes longer than one
that is compiled. What a runtime needs is fetched by its own package manager: `npm`, `go`, and Maven coordinates with `javac`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.bench.guard_speed import LONG_S, anothing, atimed, nothing, refused, switchgear_local, timed
from tests.bench.intervals import with_spread

HERE: Final = Path(__file__).parent / "guard_programs"
BUILT: Final = Path(sys.prefix) / "guard-runtimes"
OPOSSUM: Final = "10.0.0"
RESILIENCE4J: Final = "2.4.0"
LIMIT_S: Final = 300.0
CALLS: Final = 20_000
ROUNDS: Final = 20
WORKS: Final = {"Node": ("node", "npm"), "Go": ("go",), "Java": ("java", "javac")}
"""The programs of each runtime."""


def ours() -> dict[str, Any]:
    """Return the figures of our guard for plain functions."""
    closed, open_ = switchgear_local(LONG_S)(nothing), refused(switchgear_local, asynchronous=False)
    return _ours("sync", lambda call: timed(call, CALLS), nothing, closed, open_)


def ours_awaited() -> dict[str, Any]:
    """Return the figures of our guard for coroutine functions."""
    closed, open_ = switchgear_local(LONG_S)(anothing), refused(switchgear_local, asynchronous=True)
    return _ours("async", lambda call: asyncio.run(atimed(call, CALLS)), anothing, closed, open_)


def _ours(kind: str, spent: Callable[[Any], float], bare: Any, closed: Any, open_: Any) -> dict[str, Any]:
    rounds = []
    for _ in range(ROUNDS):
        each = [spent(call) / CALLS * 1e9 for call in (bare, closed, open_)]
        rounds.append({"closed": each[1] - each[0], "open": each[2] - each[0]})
    version = ".".join(map(str, sys.version_info[:3]))
    return {"name": "Switchgear", "version": "this tree", "runtime": f"CPython {version}, {kind}", "rounds": rounds}


def opossum() -> dict[str, Any]:
    """Install opossum, and return its figures."""
    folder = BUILT / f"opossum-{OPOSSUM}"
    if not (folder / "node_modules" / "opossum").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        options = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder))
        subprocess.run(["npm", "install", *options, f"opossum@{OPOSSUM}"], check=True, timeout=LIMIT_S)
    return _printed(["node", str(HERE / "opossum.mjs"), str(folder)])


def gobreaker() -> dict[str, Any]:
    """Build the program with gobreaker, and return its figures."""
    BUILT.mkdir(parents=True, exist_ok=True)
    binary = BUILT / "gobreaker"
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=HERE / "gobreaker", check=True, timeout=LIMIT_S)
    return _printed([str(binary)])


def resilience4j() -> dict[str, Any]:
    """Compile the program with resilience4j, and return its figures."""
    import jgo  # noqa: PLC0415 - only here

    logging.getLogger("jgo").setLevel(logging.ERROR)
    coordinates = f"io.github.resilience4j:resilience4j-circuitbreaker:{RESILIENCE4J}+org.slf4j:slf4j-nop:2.0.17"
    built = jgo.build(coordinates, cache_dir=BUILT / "resilience4j")
    path = ":".join(map(str, [*sorted(Path(built.path).rglob("*.jar")), BUILT / "classes"]))
    source = HERE / "Resilience4j.java"
    subprocess.run(["javac", "-cp", path, "-d", str(BUILT / "classes"), str(source)], check=True, timeout=LIMIT_S)
    return _printed(["java", "-cp", path, source.stem, RESILIENCE4J])


def _printed(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


CONTENDERS: Final[dict[str, tuple[str, Callable[[], dict[str, Any]]]]] = {
    "Switchgear": ("", ours),
    "Switchgear, awaited": ("", ours_awaited),
    "opossum": ("Node", opossum),
    "gobreaker": ("Go", gobreaker),
    "resilience4j": ("Java", resilience4j),
}
"""Each with the runtime that it needs besides Python."""


def _missing(runtime: str) -> list[str]:
    return [program for program in WORKS.get(runtime, ()) if shutil.which(program) is None]


def main(arguments: list[str] | None = None) -> int:
    """Print the table. A contender whose runtime isn't here is left out, and named."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.guard_runtimes")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    able = {name: measure for name, (runtime, measure) in CONTENDERS.items() if not _missing(runtime)}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in able}
    for _ in range(given.rounds):
        for name, measure in able.items():
            found[name].append(measure())
    print("| breaker | runtime | closed, ns | open, ns |\n|---|---|---|---|")
    for runs in found.values():
        warm = [each for run in runs for each in run["rounds"][ROUNDS // 2 :]]
        closed, open_ = ([each[field] for each in warm] for field in ("closed", "open"))
        title, runtime = f"{runs[0]['name']} {runs[0]['version']}", runs[0]["runtime"]
        print(f"| {title} | {runtime} | {with_spread(closed)} | {with_spread(open_)} |")
    print("\nThe median of all rounds, with the smallest and the largest in brackets.")
    for name, (runtime, _) in CONTENDERS.items():
        if _missing(runtime):
            print(f"Not run: {name}. It needs {' and '.join(_missing(runtime))}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
