"""Which circuits a latency policy opens in the Nezha history, set against the faults that were injected.

    python -m tests.bench.breaker_nezha rpc_calls_nezha.jsonl.gz nezha_faults.json [POLICY | --learn]

Without a policy: thresholds learned from the calls before the first fault (see nezha_policy.py), the table of what they open
in the rest of the history, and the same under other factors, so that a reader sees what hangs on their choice. ``--learn`` prints
the learned policy as TOML.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from switchgear.policies import PolicySet
from switchgear_api.replay import replay
from switchgear_api.replay.history import read_history
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.wire import decode_execution
from tests.bench.nezha_policy import LEARNED_UNTIL, Call, as_tables, as_toml, learned

FAULT_LASTS_S = 150.0
"""An open within this time after the injection belongs to the fault. The files end three minutes after its start."""
OTHER_FACTORS = ((1.5, 2.0, 0.1), (3.0, 2.0, 0.1), (2.0, 1.5, 0.1), (2.0, 3.0, 0.1), (2.0, 2.0, 0.05), (2.0, 2.0, 0.2))


@dataclass(frozen=True)
class Open:
    at: float
    tool: str
    rule: str


@dataclass(frozen=True)
class Row:
    tool: str
    seconds: float


def opens_of(history: Path, policy_of: Callable[[str], BreakerPolicy]) -> list[Open]:
    """Return the times at which circuits opened from closed."""
    return [
        Open(datetime.fromisoformat(line["at"]).timestamp(), line["tool_name"], line["cause"]["rule"])
        for line in replay(read_history(history), {"policy": policy_of})
        if line.get("previous") == "closed" and line["state"] == "open"
    ]


@lru_cache(maxsize=2)
def calls_of(history: Path) -> list[Call]:
    """Yield when each call ended, its tool and its duration."""

    def read() -> Iterator[Call]:
        for line in read_history(history):
            call = decode_execution(line.raw)
            assert call.recorded_at is not None
            yield call.recorded_at.timestamp(), call.tool_name, call.execution_time_ms or 0.0

    return list(read())


def faults_within(faults: dict[str, list[dict[str, str]]], first: float, last: float) -> dict[str, float]:
    """Return the instants of the faults within the history, by name."""
    found = {}
    for fault in (one for hour in faults.values() for one in hour):
        at = float(fault["inject_timestamp"])
        if first <= at <= last:
            found[f"{fault['inject_time']} {fault['inject_type']}"] = at
    return found


def fault_table(opens: list[Open], faults: dict[str, float]) -> dict[str, Any]:
    """Return each fault with the tools that opened and their delays, and the opens without a fault nearby."""
    table: dict[str, list[Row]] = {name: [] for name in faults}
    unexplained = []
    for one in opens:
        near = [name for name, at in faults.items() if 0 <= one.at - at <= FAULT_LASTS_S]
        if not near:
            unexplained.append(one)
        elif one.tool not in {row.tool for row in table[near[0]]}:
            table[near[0]].append(Row(one.tool, round(one.at - faults[near[0]], 1)))
    return {"faults": table, "no fault near": unexplained}


def evaluated(history: Path, faults: Path, policy_of: Callable[[str], BreakerPolicy]) -> dict[str, Any]:
    """Return the table of a policy over the whole history. The minutes that it was learned from prove nothing."""
    calls = calls_of(history)
    within = faults_within(json.loads(faults.read_text()), calls[0][0], calls[-1][0])
    return fault_table(opens_of(history, policy_of), within)


def learned_policies(history: Path, **factors: float) -> PolicySet:
    """Return the policies learned from the minutes before the first fault."""
    return PolicySet(*as_tables(learned(calls_of(history), **factors)), source="learned")


def show(table: dict[str, Any]) -> None:
    print("| fault | tool | seconds to open |\n|---|---|---|")
    for name, rows in table["faults"].items():
        for row in rows:
            print(f"| {name} | {row.tool} | {row.seconds} |")
        if not rows:
            print(f"| {name} | none | - |")
    unexplained = table["no fault near"]
    tuned = sum(one.at < LEARNED_UNTIL for one in unexplained)
    print(f"\nOpenings with no fault near: {len(unexplained)}, of them {tuned} in the minutes that were learned from")
    for one in unexplained:
        print(f"* {datetime.fromtimestamp(one.at, UTC).isoformat()} {one.tool} {one.rule}")


def show_other_factors(history: Path, faults: Path) -> None:
    print("\n| slow: x q99 | share: x worst | least share | tools opened by fault 1, 2 | opens with no fault near |")
    print("|---|---|---|---|---|")
    for duration, share, least in OTHER_FACTORS:
        policies = learned_policies(history, duration_factor=duration, share_factor=share, least_share=least)
        table = evaluated(history, faults, policies.effective)
        found = ", ".join(str(len(rows)) for rows in table["faults"].values())
        print(f"| {duration:g} | {share:g} | {least:g} | {found} | {len(table['no fault near'])} |", flush=True)


def main(history: str, faults: str, policy: str | None = None) -> None:
    path = Path(history)
    if policy == "--learn":
        print(as_toml(learned(calls_of(path))), end="")
    elif policy is not None:
        show(evaluated(path, Path(faults), PolicySet.load(policy).effective))
    else:
        show(evaluated(path, Path(faults), learned_policies(path).effective))
        show_other_factors(path, Path(faults))


if __name__ == "__main__":
    main(*sys.argv[1:])
