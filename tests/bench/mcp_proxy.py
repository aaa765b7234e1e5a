"""What the MCP proxy costs, beside a bare proxy of FastMCP: before the first call, and in each call over stdio and HTTP, in one run.

python -m tests.bench.mcp_proxy      exit code 3 if it adds more than 10 % to what the bare proxy adds
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.bench.targets import exit_code
from tests.frameworks.environments import ENVIRONMENTS, ROOT, python_of

LIMIT_S = 600
MOST = 1.1
"""The most that the proxy may add, as a share of what the bare proxy adds."""
TITLES = {
    "direct": "no proxy",
    "plain": "a bare FastMCP proxy",
    "kept": "a bare FastMCP proxy that keeps one session",
    "ours": "switchgear mcp-proxy",
}


def main() -> int:
    """Measure and print two tables. Return 3 if the proxy adds too much."""
    print("| way | first list after, s | processor, s | memory, MB |")
    print("|---|---|---|---|")
    starts: dict[str, list[dict[str, float]]] = {}
    for found in _measured("tests.frameworks.measure_start"):
        starts.setdefault(found["way"], []).append(found)
    for name, each in starts.items():
        s, cpu, mb = (statistics.median(one[key] for one in each) for key in ("s", "cpu_s", "mb"))
        print(f"| {TITLES[name]} | {s:.2f} | {cpu:.2f} | {mb:.0f} |", flush=True)
    print()
    print("| transport | way | p50, ms | p99, ms | added at p50 | added at p99 |")
    print("|---|---|---|---|---|---|")
    worst = 0.0
    for found in _measured("tests.frameworks.measure_proxy"):
        quantiles = {name: statistics.quantiles(values, n=100) for name, values in found["ms"].items()}
        p50, p99 = ({name: values[place] for name, values in quantiles.items()} for place in (49, 98))
        for name, title in TITLES.items():
            added = [f"{each[name] - each['direct']:.2f}" for each in (p50, p99)]
            print(f"| {found['transport']} | {title} | {p50[name]:.2f} | {p99[name]:.2f} | {added[0]} | {added[1]} |")
        share = (p50["ours"] - p50["direct"]) / (p50["plain"] - p50["direct"])
        kept = (p50["ours"] - p50["direct"]) / (p50["kept"] - p50["direct"])
        print(
            f"| {found['transport']} | ours in place of bare, at p50 | {share:.2f} | | {kept:.2f} of the kept one | |",
            flush=True,
        )
        worst = max(worst, share)
    return exit_code(met=worst <= MOST)


def _measured(module: str) -> Iterator[dict[str, Any]]:
    """Run a module in the proxy's environment. Yield what it prints."""
    (environment,) = [each for each in ENVIRONMENTS if each.key == "mcp-proxy"]
    done = subprocess.run(
        [str(python_of(environment)), "-m", module],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    for line in done.stdout.splitlines():
        if line.startswith("{"):  # else a server has printed it
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
