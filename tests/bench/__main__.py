"""Run every benchmark, one after the other. Tables go to the screen and to ``bench-results/``, some with plots.

    python -m tests.bench [NAMES…] [--list] [--out DIR]

Each runs as a process of its own. If one fails, the next still runs, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench import plots

REPOSITORY: Final = Path(__file__).resolve().parents[2]
NEZHA: Final = REPOSITORY.parent / "shared" / "data"
LIMIT_S: Final = 3_600
"""The limit of a bench. No bench takes an hour, so one that does hangs."""


@dataclass(frozen=True)
class Bench:
    """A module with its arguments."""

    title: str
    arguments: tuple[str, ...] = ()
    needs: Path | None = None
    """A file that isn't in this repository."""


BENCHES: Final[dict[str, Bench]] = {
    "breaker_speed": Bench("What a call costs, and how large a circuit is"),
    "guard_speed": Bench("What the guard adds to a call, alone and with the event sent to Kafka, beside others"),
    "breaker_defaults": Bench("Calls to open and calls between false opens, for our defaults and others'"),
    "breaker_nezha": Bench(
        "Faults that were injected into a microservice shop, seen by latency alone",
        (str(NEZHA / "rpc_calls_nezha.jsonl.gz"), str(NEZHA / "nezha_faults.json")),
        NEZHA / "rpc_calls_nezha.jsonl.gz",
    ),
    "evidence_rules": Bench(
        "Opens of healthy tools in real calls, and the time until a tool that hangs is refused",
        (str(NEZHA),),
        NEZHA / "rpc_calls_nezha.jsonl.gz",
    ),
    "adapters": Bench("What each adapter adds to a tool call of its framework"),
    "mcp_proxy": Bench("What the MCP proxy adds to a tool call, beside a bare proxy of FastMCP"),
    "gateway": Bench("Executions a second through one core of the gateway, beside a bare echo of the same bytes"),
    "fleet_probes": Bench("Probes per recovery at 1, 10 and 50 processes, beside breakers of one process"),
    "fleet_latency": Bench(
        "From the failing call to the refusal in twenty other processes",
        ("--plot", str(REPOSITORY / "docs" / "images" / "fleet_latency.svg")),
    ),
    "benefit": Bench("What agents gain: tasks, tokens and time, with breakers and without", ("--fetch",)),
    "server_outage": Bench(
        "A server with 40 tools dies under 20 processes: until all are refused, with server circuits and without"
    ),
    "fan_out": Bench("One gateway with 2,000 streams: latency, memory, and all clients at once"),
    "idle_followers": Bench("What an idle follower costs a broker, with long fetches and short ones"),
    "scale": Bench("Gateways, partitions and brokers for 10,000, 100,000 and a million processes"),
    "fleet_failover": Bench("Workers killed: how long until their circuits move, and do versions rise?"),
    "worker_bench": Bench("Events a second through the worker, beside a stock agent"),
    "sink": Bench("Rows a second from Kafka to ClickHouse, beside bare inserts and the plain ways"),
    "sink_memory": Bench("The sink's memory over a million rows"),
    "poison": Bench("What bad rows cost the sink"),
    "sink_exactness": Bench("The sink killed again and again: are the rows exact?"),
    "queries": Bench("How long each query takes over ten million calls"),
    "console_browser": Bench("The console in a browser: until it can be used, and from a record to the screen"),
    "console": Bench("What fifty consoles cost the API"),
}


def present() -> dict[str, Bench]:
    """The benches whose module is here; one without a title runs under its name."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    runnable = [name for name in files if name in BENCHES or _is_runnable(name)]
    named = [name for name in BENCHES if name in runnable]
    return {name: BENCHES.get(name, Bench(name)) for name in dict.fromkeys([*named, *runnable])}


def _is_runnable(name: str) -> bool:
    text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return not name.startswith("__") and '\nif __name__ == "__main__":' in text


def run(name: str, bench: Bench, out: Path) -> bool:
    """Run a bench, and show and keep its output. Return whether it succeeded."""
    print(f"\n## {bench.title}\n\n`python -m tests.bench.{name}`\n", flush=True)
    if bench.needs is not None and not bench.needs.exists():
        print(f"Not run: there is no {bench.needs.name}.", flush=True)
        return False
    began = time.monotonic()
    lines: list[str] = []
    command = [sys.executable, "-m", f"tests.bench.{name}", *bench.arguments]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        watch = threading.Timer(LIMIT_S, process.kill)
        watch.daemon = True
        watch.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
        code = process.wait(LIMIT_S)
        watch.cancel()
    text = "".join(lines)
    (out / f"{name}.md").write_text(f"# {bench.title}\n\n{text}", encoding="utf-8")
    plot = plots.draw(name, text, out) if code == 0 else None
    ending = f"{time.monotonic() - began:.0f} s" if code == 0 else f"FAILED with exit code {code}"
    print(f"\n({ending}{'' if plot is None else f'; {plot.name}'})", flush=True)
    return code == 0


def main(arguments: list[str] | None = None) -> int:
    """Run the named benches, or all of them."""
    benches = present()
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Run the benches one after the other.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="Names of benches; all by default.")
    parser.add_argument("--list", action="store_true", help="List the benches.")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "bench-results", help="Where the tables are kept.")
    given = parser.parse_args(arguments)
    if given.list:
        for name, bench in benches.items():
            print(f"{name:<20}{bench.title}")
        return 0
    unknown = [name for name in given.names if name not in benches]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(benches)}")
    given.out.mkdir(parents=True, exist_ok=True)
    failed = [name for name in given.names or benches if not run(name, benches[name], given.out)]
    print(f"\nTables are in {given.out}." + (f" Failed: {', '.join(failed)}." if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
