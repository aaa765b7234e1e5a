"""Which circuits a latency policy opens in the Nezha history, set against the faults that were injected.

python -m tests.bench.breaker_nezha rpc_calls_nezha.jsonl.gz nezha_faults.json deploy/policies/latency.toml
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from switchgear.history import read_history
from switchgear.policies import PolicySet
from switchgear.replay import replay
from switchgear_schemas.wire import decode_execution

FAULT_LASTS_S = 150.0
"""An open within this of the injection is the fault's; the files end three minutes after it began."""


@dataclass(frozen=True)
class Open:
    at: float
    tool: str
    rule: str


@dataclass(frozen=True)
class Row:
    tool: str
    seconds: float


def opens_of(history: Path, policies: PolicySet) -> tuple[list[Open], float, float]:
    """Openings from closed, and the instants of the first and last call."""
    instants: list[float] = []

    def noted(lines: Any) -> Any:
        for line in lines:
            at = decode_execution(line.raw).recorded_at
            assert at is not None
            instants.append(at.timestamp())
            yield line

    opens = [
        Open(datetime.fromisoformat(line["at"]).timestamp(), line["tool_name"], line["cause"]["rule"])
        for line in replay(noted(read_history(history)), {"policy": policies.effective})
        if line.get("previous") == "closed" and line["state"] == "open"
    ]
    return opens, instants[0], instants[-1]


def faults_within(faults: dict[str, list[dict[str, str]]], first: float, last: float) -> dict[str, float]:
    """Name of a fault to its instant, for those that lie within the history."""
    found = {}
    for fault in (one for hour in faults.values() for one in hour):
        at = float(fault["inject_timestamp"])
        if first <= at <= last:
            found[f"{fault['inject_time']} {fault['inject_type']}"] = at
    return found


def fault_table(opens: list[Open], faults: dict[str, float]) -> dict[str, Any]:
    """Each fault with the tools that opened and after how long, and the openings with no fault near."""
    table: dict[str, list[Row]] = {name: [] for name in faults}
    unexplained = []
    for one in opens:
        near = [name for name, at in faults.items() if 0 <= one.at - at <= FAULT_LASTS_S]
        if not near:
            unexplained.append(one)
        elif one.tool not in {row.tool for row in table[near[0]]}:
            table[near[0]].append(Row(one.tool, round(one.at - faults[near[0]], 1)))
    return {"faults": table, "no fault near": unexplained}


def main(history: str, faults: str, policy: str) -> None:
    opens, first, last = opens_of(Path(history), PolicySet.load(policy))
    table = fault_table(opens, faults_within(json.loads(Path(faults).read_text()), first, last))
    print("| fault | tool | seconds to open |\n|---|---|---|")
    for name, rows in table["faults"].items():
        for row in rows:
            print(f"| {name} | {row.tool} | {row.seconds} |")
        if not rows:
            print(f"| {name} | none | - |")
    print(f"\nOpenings with no fault near: {len(table['no fault near'])}")
    for one in table["no fault near"]:
        print(f"* {datetime.fromtimestamp(one.at, UTC).isoformat()} {one.tool} {one.rule}")


if __name__ == "__main__":
    main(*sys.argv[1:])
