"""A circuit that recovers lets a share of the calls through that only rises, in steps that are never early.

After a close by probes the share begins with the policy's first step. Each step lasts as long as the policy says, or longer: the owner has
no timer. Any other close, and every other state, has no share. Of the calls that meet one record, a process admits the share, to within one
call, and one more that waited for a probe.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from switchgear.fleet import Message
from switchgear.guard.decision import PendingProbe
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from tests.simulator.agenda import instant
from tests.simulator.invariants.broken import Histories
from tests.simulator.tools import SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


NAME: Final = "monotonic-ramp"
_CLOCK_S: Final = 0.002
"""Instants in records and messages are rounded to milliseconds."""


class Ramp:
    """Reads the share of every record as plain JSON, and counts the calls that each process admits."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self._met: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Calls that met a record and those admitted of them, by process, circuit and version."""
        self.steps: Counter[float] = Counter()
        self.reopened = 0

    def published(self, record: dict[str, Any], known: dict[str, Any] | None, message: Message) -> None:
        """Check a circuit's newest record. ``known`` is the one before."""
        share, rule = record["admitted_share"], (record["cause"] or {}).get("rule")
        fresh = known is None or known["generation"] < record["generation"]
        self.reopened += rule == "recovery_failed"
        if share < 1:
            self.steps[share] += 1
        highest = self._highest(record, message)
        if share > highest:
            self._break(record, f"it admits {share:g} of the calls, and no more than {highest:g} are due")
        if known is not None and not fresh and share < known["admitted_share"]:
            self._break(record, f"it admits {share:g} of the calls, after {known['admitted_share']:g}")
        if share < 1 and (record["state"] != "closed" or share not in self._shares(record)):
            self._break(record, f"it is {record['state']} and admits {share:g} of the calls")
        if share < 1 and fresh and rule not in {"probe_succeeded", "recovery_ramp"}:
            self._break(record, f"it closed by {rule} and admits {share:g} of the calls")

    def arrived(
        self, process: SimulatedProcess, tool: SimulatedTool, answer: Permit | Rejection | PendingProbe
    ) -> None:
        """Count a call of a process that knows of the recovery, unless the circuit of its server refused it."""
        record = process.received.get(tool.name)
        if record is None or record["state"] != "closed" or record["admitted_share"] == 1:
            return
        if isinstance(answer, Rejection) and answer.family is not None:
            return
        place = process.name, tool.name, record["version"]
        met, admitted = self._met.get(place, (0, 0))
        refused = isinstance(answer, Rejection) and answer.source == "fleet"
        met, admitted = self._met[place] = met + 1, admitted + (not refused)
        if abs(admitted - met * record["admitted_share"]) >= 2:
            self._break(record, f"{process.name} admitted {admitted} of {met} calls")

    def _highest(self, record: dict[str, Any], message: Message) -> float:
        """Return the highest share that may be admitted by now."""
        shares = self._shares(record)
        if record["state"] != "closed" or (record["cause"] or {}).get("rule") not in {
            "probe_succeeded",
            "recovery_ramp",
        }:
            return 1.0
        since = message.timestamp / 1000 - instant(record["changed_at"]) + _CLOCK_S
        step = int(since // self._simulation.by_name[record["tool_name"]].policy.recovery_ramp_step_s)
        return float(shares[step]) if step < len(shares) else 1.0

    def _shares(self, record: dict[str, Any]) -> tuple[float, ...]:
        return self._simulation.by_name[record["tool_name"]].policy.recovery_ramp or ()

    def _break(self, record: dict[str, Any], what: str) -> None:
        raise self._histories.broken(NAME, record["circuit_id"], what)

    def line(self) -> str:
        """Return the result in one line."""
        steps = ", ".join(f"{share:g}: {count}" for share, count in sorted(self.steps.items())) or "none"
        calls, admitted = (sum(each[place] for each in self._met.values()) for place in (0, 1))
        return f"{NAME}: held (records by share: {steps}; {admitted} of {calls} calls admitted; {self.reopened} opened again)"
