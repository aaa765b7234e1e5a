"""What the MCP proxy adds to a tool call, beside a bare proxy of FastMCP, over stdio and HTTP, in one run.

python -m tests.bench.mcp_proxy      exit code 1 if it adds more than 10 % to what the bare proxy adds
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

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
    """Measure and print a table. Return 1 if the proxy adds too much."""
    (environment,) = [each for each in ENVIRONMENTS if each.key == "mcp-proxy"]
    done = subprocess.run(
        [str(python_of(environment)), "-m", "tests.frameworks.measure_proxy"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    print("| transport | way | p50, ms | p99, ms | added at p50 | added at p99 |")
    print("|---|---|---|---|---|---|")
    worst = 0.0
    for line in done.stdout.splitlines():
        if not line.startswith("{"):  # what a server printed
            continue
        found = json.loads(line)
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
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
