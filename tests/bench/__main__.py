"""Run every benchmark, one after the other. Tables go to the screen and to ``bench-results/``, as Markdown and JSON, some with plots.

    python -m tests.bench [NAMES…] [--list] [--out DIR]

Each runs as a process of its own. If one fails, the next still runs, and the exit code is 1. A bench whose figures
miss a target is named at the end, and has not failed. ``run.json`` has the machine, the versions, the date, and how long each took.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench import machine, plots
from tests.bench.targets import MISSED

REPOSITORY: Final = Path(__file__).resolve().parents[2]
NEZHA: Final = REPOSITORY.parent / "shared" / "data"
LIMIT_S: Final = 1_800
"""The limit of a bench. None takes half an hour, so one that does hangs."""
OUT: Final = "{out}"
"""In the arguments of a bench: the folder of the results."""


@dataclass(frozen=True)
class Bench:
    """A module with its arguments."""

    title: str
    arguments: tuple[str, ...] = ()
    needs: Path | None = None
    """A file that isn't in this repository."""


# Their arguments make all of them together fit into forty minutes of two cores. Most measure longer without.
BENCHES: Final[dict[str, Bench]] = {
    "breaker_speed": Bench("What a call costs, and how large a circuit is"),
    "guard_speed": Bench("What the guard adds to a call, alone and with the event sent to Kafka, beside others"),
    "guard_runtimes": Bench("What a guarded call costs in other languages' breakers, on their own runtimes"),
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
    "fleet": Bench(
        "A fleet in eight outages, beside seven other ways to refuse calls",
        ("--rounds", "2", "--simulated-rounds", "2", "--out", OUT),
    ),
    "fleet_latency": Bench(
        "From the failing call to the refusal in twenty other processes", ("--plot", f"{OUT}/fleet_latency.svg")
    ),
    "pacing": Bench(
        "Twenty processes and a server with a quota: the fleet's pace, beside none and beside limits in each process",
        ("--seconds", "40"),
    ),
    "benefit": Bench("What agents gain: tasks, tokens and time, with breakers and without", ("--fetch", "--out", OUT)),
    "server_outage": Bench(
        "A server with 40 tools dies under 20 processes: until all are refused, with server circuits and without",
        ("--outages", "2"),
    ),
    "fan_out": Bench("One gateway with 2,000 streams: latency, memory, and all clients at once"),
    "idle_followers": Bench(
        "What an idle follower costs a broker, with long fetches and short ones", ("--seconds", "10")
    ),
    "scale": Bench("Gateways, partitions and brokers for 10,000, 100,000 and a million processes"),
    "fleet_failover": Bench(
        "Workers killed: how long until their circuits move, and do versions rise?", ("--kills", "1")
    ),
    "worker_bench": Bench(
        "Events a second through the worker, beside Faust, Quix Streams and Kafka Streams", ("--rounds", "2")
    ),
    "sink": Bench("Rows a second from Kafka to ClickHouse, beside bare inserts and the plain ways"),
    "sink_memory": Bench("The sink's memory over half a million rows", ("500000",)),
    "cost_at_rest": Bench(
        "What a whole system takes at rest and with 22, 1,000 and 10,000 calls a second, part by part",
        ("15",),
    ),
    "insert_cost": Bench(
        "What a small insert costs, and what the views and projections add",
        ("20", "20", "as it is", "without any view", "without the projections of tool_counts_1m"),
    ),
    "queries": Bench("How long each query takes over three million calls", ("--rows", "3000000")),
    "console_browser": Bench(
        "The console in a browser: until it can be used, and from a record to the screen", ("--seconds", "30")
    ),
    "bounds": Bench("What hostile requests cost the servers"),
    "family_guard": Bench("What server circuits add to a guarded call"),
    "family_fold": Bench("What server circuits add to the fold"),
}


def present() -> dict[str, Bench]:
    """The benches whose module or package is here; one without a title runs under its name."""
    here = Path(__file__).parent
    files = sorted(path.stem for path in here.glob("*.py") if _is_runnable(path))
    runnable = files + sorted(path.parent.name for path in here.glob("*/__main__.py"))
    return {name: BENCHES.get(name, Bench(name)) for name in dict.fromkeys([*BENCHES, *runnable]) if name in runnable}


def _is_runnable(path: Path) -> bool:
    return not path.name.startswith("__") and '\nif __name__ == "__main__":' in path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Outcome:
    """How a bench ended: after how many seconds, and with which exit code. None if it did not run."""

    seconds: float
    code: int | None

    @property
    def measured(self) -> bool:
        """Whether there are figures, even if they miss a target."""
        return self.code in {0, MISSED}


def run(name: str, bench: Bench, out: Path) -> Outcome:
    """Run a bench, and show and keep its output."""
    print(f"\n## {bench.title}\n\n`python -m tests.bench.{name}`\n", flush=True)
    if bench.needs is not None and not bench.needs.exists():
        print(f"Not run: there is no {bench.needs.name}.", flush=True)
        return Outcome(0.0, None)
    began = time.monotonic()
    lines: list[str] = []
    arguments = [argument.replace(OUT, str(out.resolve())) for argument in bench.arguments]
    command = [sys.executable, "-m", f"tests.bench.{name}", *arguments]
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
        outcome = Outcome(round(time.monotonic() - began, 1), process.wait(LIMIT_S))
        watch.cancel()
    plot = _keep(name, bench, "".join(lines), outcome, out)
    endings = {0: "", MISSED: ", a target was missed"}
    ending = endings.get(outcome.code, f", FAILED with exit code {outcome.code}")
    print(f"\n({outcome.seconds:.0f} s{ending}{'' if plot is None else f'; {plot.name}'})", flush=True)
    return outcome


def _keep(name: str, bench: Bench, text: str, outcome: Outcome, out: Path) -> Path | None:
    """Write the output as Markdown, its tables as JSON, and its plot if it has one."""
    (out / f"{name}.md").write_text(f"# {bench.title}\n\n{text}", encoding="utf-8")
    kept = {
        "bench": name,
        "title": bench.title,
        "arguments": bench.arguments,
        "machine": machine.describe(),
        "seconds": outcome.seconds,
        "exit_code": outcome.code,
        "tables": [{"heading": heading, "rows": rows} for heading, rows in plots.tables(text)],
    }
    (out / f"{name}.json").write_text(_json(kept), encoding="utf-8")
    return plots.draw(name, text, out) if outcome.measured else None


def _json(kept: dict[str, Any]) -> str:
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the named benches, or all of them. Return 1 if one failed. One whose data isn't here is left out."""
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
    described = machine.describe()
    print(machine.sentence(described), flush=True)
    outcomes = {name: run(name, benches[name], given.out) for name in given.names or benches}
    seconds = {name: outcome.seconds for name, outcome in outcomes.items()}
    (given.out / "run.json").write_text(_json({"machine": described, "seconds": seconds}), encoding="utf-8")
    left_out = [name for name, outcome in outcomes.items() if outcome.code is None]
    missed = [name for name, outcome in outcomes.items() if outcome.code == MISSED]
    failed = [name for name, outcome in outcomes.items() if outcome.code is not None and not outcome.measured]
    print(
        f"\n{sum(seconds.values()) / 60:.0f} minutes. Tables are in {given.out}."
        + (f" Not run: {', '.join(left_out)}." if left_out else "")
        + (f" Missed a target: {', '.join(missed)}." if missed else "")
        + (f" Failed: {', '.join(failed)}." if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
