"""What each adapter adds to a tool call of its framework, beside the framework's bare call, in one run.

python -m tests.bench.adapters [FRAMEWORK …]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from tests.frameworks.environments import NEWEST, ROOT, python_of

LIMIT_S = 300


def main(names: Sequence[str]) -> int:
    """Measure and print a table. Return how many could not be measured."""
    print(
        "| framework | version | a bare call, µs of CPU | added by hooks that do nothing, µs | by the adapter, µs | share |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    failed = 0
    for environment in NEWEST:
        if environment.key or (names and environment.name not in names):
            continue
        for file in environment.tests:
            done = subprocess.run(
                [str(python_of(environment)), "-m", "tests.frameworks.measure", file],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            if done.returncode:
                print(f"{environment.title}: {done.stderr}", file=sys.stderr)
                failed += 1
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            bare, hooks, added = (found[name] / 1e3 for name in ("bare_ns", "hooks_ns", "added_ns"))
            name = file.removeprefix("test_").removesuffix(".py")
            print(
                f"| {name} | {environment.version} | {bare:,.0f} | {hooks:,.1f} | {added:,.1f} | {added / bare:.1%} |",
                flush=True,
            )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
