"""Opens of healthy tools, and the time until a tool that hangs is refused, over real calls: now, and with another commit's rules.

    python -m tests.bench.evidence_rules SHARED_DATA [--before TREE | --before CELLS] [--json]

``TREE`` is a work tree of another commit, such as of ``git worktree add --detach TREE COMMIT``. This script runs with its packages, too.
``CELLS`` is a file with what ``--json`` printed.

Each history is replayed through the local default, a circuit in each process, and through the fleet's default, or for the shop the
latency policy that was learned from its first minutes. The agents' calls are replayed in two ways: as results of MCP through the
adapters' common part, and folded as failures without a class, which are exceptions of an unknown type in a process, and traces that
tell the status alone to a fleet. The latter count each failure although the tool answered, so they are the worst that can be recorded.

An open is false if the tool was healthy then. In the shop: no fault was injected within the 150 s before. Of agents: of the tool's ten
calls around it, at least half succeeded or were answered with what was wrong with their arguments. Opens after a failed probe count
too. A good call is one that succeeded in the history, and not slowly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from mcp.types import CallToolResult, TextContent

from switchgear import Switchgear
from switchgear.integrations import mcp_results
from switchgear.integrations.tool_calls import StartedCall, ToolCalls
from switchgear.policies import PolicySet
from switchgear.testing import FakeClock, InMemoryFleet
from switchgear_api.replay.replay import Fold
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy
from switchgear_schemas.wire import Execution
from tests.bench.breaker_nezha import FAULT_LASTS_S, faults_within
from tests.bench.evidence_history import AGENTS as PROCESSES
from tests.bench.evidence_history import Call, agent_calls, shop_calls
from tests.bench.evidence_hung import OFF, times_to_open
from tests.support.local_client import local_client

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LATENCY: Final = REPOSITORY / "deploy" / "policies" / "latency.toml"
PACKAGES: Final = ("schemas", "producers", "stream", "sinks")
AROUND: Final = 5
"""How many of the tool's calls up to an open, and as many after it, say whether it was healthy."""
SLOW_S: Final = {"tau-bench": 30.0, "LiveMCPBench": 30.0, "Nezha": 1.0}
"""From when on a call is slow, in the trials with calls that hang."""
AGENTS: Final = {"tau-bench": "agent_calls_tau_airline.jsonl.gz", "LiveMCPBench": "agent_calls_livemcp.jsonl.gz"}
SHOP: Final = "rpc_calls_nezha.jsonl.gz"

PolicyOf = Callable[[str], BreakerPolicy]
Healthy = Callable[[int], bool]
"""Tells whether a call's tool was healthy when the call ended, by the call's place in the history."""


class Found(NamedTuple):
    """What a replay did."""

    opens: list[int]
    """The calls with which circuits opened, by their place in the history."""
    refused_good: int
    refused_by_caller_errors: int = 0
    """How many of ``refused_good`` were refused to their session, because it had sent bad arguments again and again."""

    def cells(self, healthy: Healthy) -> list[str]:
        false = sum(healthy(place) for place in self.opens)
        by = self.refused_by_caller_errors
        refused = f"{self.refused_good:,}" + (f" ({by:,} to their session)" if by else "")
        return [f"{len(self.opens):,}", f"{false:,}", refused]


# -- through the adapters' common part ----------------------------------------------------------------------------------


def as_mcp(calls: Iterable[Call], gear_of: Callable[[str], Switchgear], advance: Callable[[float], None]) -> Found:
    """Make the calls through the part that all adapters share. The tool answers with what it answered in the history."""
    agents: dict[str, ToolCalls] = {}
    opens, refused, by_caller_errors, now = [], 0, 0, 0.0
    for place, call in enumerate(calls):
        advance(call.began - now)
        now = call.began
        agent = agents.get(call.process) or ToolCalls(gear_of(call.process), circuit_of=circuit_of)
        agents[call.process] = agent
        circuit = circuit_of(call.tool)
        was_open = agent.gear.is_open(circuit)
        begun = agent.begin(call.tool, given={"hash": call.arguments}, session_id=call.session)
        if isinstance(begun, StartedCall):
            _answer(begun, agent, call.error)
            if not was_open and agent.gear.is_open(circuit):
                opens.append(place)
        elif not call.error:
            refused += 1
            by_caller_errors += begun.rejection.source == "caller"
    return Found(opens, refused, by_caller_errors)


def circuit_of(tool: str) -> str:
    """Return the circuit of a tool: ``mcp:server:tool`` for ``server/tool``."""
    server, _, name = tool.rpartition("/")
    return f"mcp:{(server or 'agent').replace(' ', '_')}:{name}"


def _answer(call: StartedCall, calls: ToolCalls, error: str) -> None:
    text = error or "ok"
    result = CallToolResult(content=[TextContent(type="text", text=text)], is_error=bool(error))
    report: Any = getattr(mcp_results, "report_result", None)  # older commits judge MCP's results there
    if report is None:
        call.succeeded(result)
    else:
        report(call, calls, result)


def as_mcp_locally(calls: Iterable[Call]) -> Found:
    """Make the calls with the local default, each process alone."""
    clock = FakeClock()
    gears: dict[str, Switchgear] = {}
    return as_mcp(calls, partial(_made, gears, lambda: local_client(clock.monotonic)), clock.advance)


def as_mcp_in_a_fleet(calls: Iterable[Call]) -> Found:
    """Make the calls with the fleet's default. The circuits of the processes are off."""
    fleet = InMemoryFleet()
    gears: dict[str, Switchgear] = {}
    return as_mcp(calls, partial(_made, gears, lambda: fleet.gear(local_policies=OFF)), fleet.advance)


def _made(gears: dict[str, Switchgear], make: Callable[[], Switchgear], process: str) -> Switchgear:
    if process not in gears:
        gears[process] = make()
    return gears[process]


# -- failures without a class -----------------------------------------------------------------------------------------------


def folded(calls: Iterable[Call], policy_of: PolicyOf, *, fleet: bool) -> Found:
    """Fold the calls as ``switchgear replay`` does: together as a fleet, or those of each process alone.

    A failure has no class. To the fleet, the events come from a source that hides it, if events can say that.
    """
    hidden = fleet and "evidence" in Execution.__struct_fields__
    more: dict[str, Any] = {"evidence": "status_only"} if hidden else {}
    folds: dict[str, Fold] = {}
    opens = []
    for place, call in enumerate(calls):
        fold = folds.setdefault("" if fleet else call.process, Fold(policy_of))
        event = Execution(
            tool_name=call.tool,
            status="error" if call.error else "success",
            execution_time_ms=call.seconds * 1000,
            emitter_id=call.process,
            **(more if call.error else {}),
        )
        opens += [place for moved in fold.add(event, call.ended) if moved.state == "open" and moved.previous != "open"]
    refused = [fold.summary.refused for fold in folds.values()]
    return Found(opens, sum(one.succeeded - one.slow for one in refused))


# -- health ---------------------------------------------------------------------------------------------------------------


def health_around(calls: list[Call]) -> Healthy:
    """Return whether an agent's tool was healthy, by its calls around."""
    of_tool: dict[str, list[int]] = {}
    rank = []
    for place, call in enumerate(calls):
        own = of_tool.setdefault(call.tool, [])
        rank.append(len(own))
        own.append(place)

    def healthy(place: int) -> bool:
        own = of_tool[calls[place].tool]
        near = own[max(0, rank[place] - AROUND + 1) : rank[place] + AROUND + 1]
        return 2 * sum(calls[each].says_healthy for each in near) >= len(near)

    return healthy


def health_by_faults(calls: list[Call], faults: Path) -> Healthy:
    """Return whether no fault had been injected into the shop shortly before."""
    instants = faults_within(json.loads(faults.read_text()), calls[0].ended, calls[-1].ended).values()
    return lambda place: not any(0 <= calls[place].ended - at <= FAULT_LASTS_S for at in instants)


# -- tables ---------------------------------------------------------------------------------------------------------------


def measured(data: Path) -> dict[str, dict[str, list[str]]]:
    """Return the cells of both tables, by table and the start of the row."""
    rules: dict[str, list[str]] = {}
    hung: dict[str, list[str]] = {}
    for name, file in AGENTS.items():
        calls = agent_calls(data / file)
        together = [replace(call, process="one") for call in calls]
        healthy = health_around(calls)
        for way, found in {
            f"results of MCP | {PROCESSES} processes": as_mcp_locally(calls),
            "results of MCP | one process": as_mcp_locally(together),
            "results of MCP | fleet": as_mcp_in_a_fleet(calls),
            f"exceptions without a class | {PROCESSES} processes": folded(calls, lambda _: LOCAL_DEFAULT, fleet=False),
            "exceptions without a class | one process": folded(together, lambda _: LOCAL_DEFAULT, fleet=False),
            "traces with the status alone | fleet": folded(calls, lambda _: FLEET_DEFAULT, fleet=True),
        }.items():
            rules[f"{name}, {len(calls):,} calls | {way}"] = found.cells(healthy)
        _add_hung(hung, name, calls)
    calls = shop_calls(data / SHOP)
    healthy = health_by_faults(calls, data / "nezha_faults.json")
    start = f"Nezha, {len(calls):,} calls"
    latency: PolicyOf = PolicySet.load(LATENCY).effective
    for way, policy_of, fleet in (
        ("the default | a process a pod", lambda _: LOCAL_DEFAULT, False),
        ("the default | fleet", lambda _: FLEET_DEFAULT, True),
        ("the latency policy | a process a pod", latency, False),
        ("the latency policy | fleet", latency, True),
    ):
        rules[f"{start} | {way}"] = folded(calls, policy_of, fleet=fleet).cells(healthy)
    _add_hung(hung, "Nezha", calls)
    return {"rules": rules, "hung": hung}


def _add_hung(table: dict[str, list[str]], name: str, calls: list[Call]) -> None:
    slow_s = SLOW_S[name]
    for way, cells in times_to_open(calls, slow_s).items():
        table[f"{name}, {slow_s:g} s | {way}"] = cells


def measured_with(tree: Path, data: Path) -> dict[str, dict[str, list[str]]]:
    """Return the same with the packages of another work tree, or from a file of an earlier run.

    Raises:
        SystemExit: There is neither, or the run fails.
    """
    found: dict[str, dict[str, list[str]]]
    if tree.is_file():
        found = msgspec.json.decode(tree.read_bytes())
        return found
    if not (tree / "producers" / "switchgear").is_dir():
        sys.exit(
            f"--before: {tree} is neither a work tree of this repository nor a file. Make one: git worktree add --detach"
            f" {tree} COMMIT"
        )
    paths = [*(str(tree / name) for name in PACKAGES), str(REPOSITORY)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.evidence_rules", str(data), "--json"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"The run with the packages of {tree} failed with exit code {done.returncode}.")
    found = msgspec.json.decode(done.stdout)
    return found


def show(now: dict[str, dict[str, list[str]]], before: dict[str, dict[str, list[str]]] | None) -> None:
    """Print both tables. A cell with two figures is before, now."""
    arrow = "" if before is None else ": before → now"
    print(f"| history | replayed as | by | opens{arrow} | false opens{arrow} | good calls refused{arrow} |")
    print("|---|---|---|---|---|---|")
    _rows(now["rules"], None if before is None else before["rules"])
    print("\nA tool's calls never end from one of them on. Time to open, in thresholds:\n")
    print(
        f"| history, slow after | who | since the first, median and longest{arrow} | since the fifth, longest{arrow} |"
    )
    print("|---|---|---|---|")
    _rows(now["hung"], None if before is None else before["hung"])


def _rows(now: dict[str, list[str]], before: dict[str, list[str]] | None) -> None:
    for start, cells in now.items():
        old = None if before is None else before[start]
        shown = cells if old is None else [f"{was} → {cell}" for was, cell in zip(old, cells, strict=True)]
        print(f"| {start} | {' | '.join(shown)} |")


def main(arguments: list[str] | None = None) -> None:
    """Replay, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.evidence_rules")
    parser.add_argument("data", type=Path, help="The folder with the histories.")
    parser.add_argument("--before", type=Path, metavar="TREE", help="What to compare with.")
    parser.add_argument("--json", action="store_true", help="Print the cells as JSON.")
    given = parser.parse_args(arguments)
    if given.json:
        print(json.dumps(measured(given.data)))
        return
    before = None if given.before is None else measured_with(given.before.resolve(), given.data.resolve())
    show(measured(given.data), before)


if __name__ == "__main__":
    main()
