"""A circuit that recovers lets a share of the calls through that only rises, in steps that are never early.

After a close by probes the share begins with the policy's first step. Each step lasts as long as the policy says, or longer: the owner has
no timer. Any other close, and every other state, has no share. Of the calls that meet one record, a process admits the share, to within one
call, and one more that waited for a probe.

A policy may have a ramp only for outages in which the tool asked to wait. Such a ramp must begin where the record of the open circuit shows
that ``Retry-After`` lengthened the wait. It must not begin where the log has no such answer since a window before the circuit opened.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from switchgear.fleet import Message
from switchgear.guard.attempts import Pending
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from switchgear_schemas import BreakerPolicy
from tests.simulator.agenda import instant
from tests.simulator.invariants.broken import Histories
from tests.simulator.tools import SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


NAME: Final = "monotonic-ramp"
_CLOCK_S: Final = 0.002
"""Instants in records and messages are rounded to milliseconds."""
_WINDOW_S: Final = 60.0
_UNOWNED_S: Final = 120.0
"""The longest time without a worker. After it, a command may come before older calls, which then get its time."""
_NO_RULE: Final = frozenset({"command", "asked", "set_policy"})
"""Causes of records whose wait no rule of the policy chose."""


class Ramp:
    """Reads the share of every record as plain JSON, and counts the calls that each process admits."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self._met: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Calls that met a record and those admitted of them, by process, circuit and version."""
        self._asked_until: dict[str, float] = {}
        """Until when a tool asked to wait, by circuit, in seconds since 1970."""
        self._outages: dict[str, tuple[float, bool]] = {}
        """When the circuit opened first in this outage, and whether Retry-After lengthened a wait, until all calls go again."""
        self.steps: Counter[float] = Counter()
        self.after_retry_after = 0
        self.reopened = 0

    def executed(self, event: dict[str, Any], message: Message) -> None:
        """Note a call whose tool asked to wait."""
        wait_s = event.get("retry_after_s")
        if wait_s is not None:
            circuit_id = self._simulation.tool_of[event["tool_name"]].circuit_id
            until = message.timestamp / 1000 + wait_s
            self._asked_until[circuit_id] = max(until, self._asked_until.get(circuit_id, 0.0))

    def published(self, record: dict[str, Any], known: dict[str, Any] | None, message: Message) -> None:
        """Check a circuit's newest record. ``known`` is the one before."""
        share, rule = record["admitted_share"], (record["cause"] or {}).get("rule")
        fresh = known is None or known["generation"] < record["generation"]
        self.reopened += rule == "recovery_failed"
        if share < 1:
            self.steps[share] += 1
            self.after_retry_after += fresh and self._policy(record).recovery_ramp is None
        if fresh:
            self._note_outage(record, known, rule)
        highest = self._highest(record, message)
        if share > highest:
            self._break(record, f"it admits {share:g} of the calls, and no more than {highest:g} are due")
        if known is not None and not fresh and share < known["admitted_share"]:
            self._break(record, f"it admits {share:g} of the calls, after {known['admitted_share']:g}")
        if share < 1 and (record["state"] != "closed" or share not in self._shares(record)):
            self._break(record, f"it is {record['state']} and admits {share:g} of the calls")
        if share < 1 and fresh and rule not in {"probe_succeeded", "recovery_ramp"}:
            self._break(record, f"it closed by {rule} and admits {share:g} of the calls")
        if record["state"] == "closed" and share == 1:
            self._outages.pop(record["circuit_id"], None)

    def arrived(self, process: SimulatedProcess, tool: SimulatedTool, answer: Permit | Rejection | Pending) -> None:
        """Count a call of a process that knows of the recovery, unless the circuit of its server refused it."""
        record = process.received.get(tool.name)
        if isinstance(answer, Rejection) and answer.family is not None:
            return  # its server's circuit refused before the tool's was asked
        if record is None or record["state"] != "closed" or record["admitted_share"] == 1:
            return
        place = process.name, tool.name, record["version"]
        met, admitted = self._met.get(place, (0, 0))
        refused = isinstance(answer, Rejection) and answer.source == "fleet"
        met, admitted = self._met[place] = met + 1, admitted + (not refused)
        if abs(admitted - met * record["admitted_share"]) >= 2:
            self._break(record, f"{process.name} admitted {admitted} of {met} calls")

    def _note_outage(self, record: dict[str, Any], known: dict[str, Any] | None, rule: str | None) -> None:
        """Note since when there is an outage, and whether the tool visibly asked to wait."""
        circuit_id, state, opened = record["circuit_id"], record["state"], instant(record["changed_at"])
        ended = rule == "command" and known is not None and known["state"] == "closed"  # with the ramp
        if ended or state not in {"open", "half_open", "closed"}:
            self._outages.pop(circuit_id, None)
        if state == "open":
            # If a crash lost records, it may have opened before.
            lost = known is not None and known["version"] + 1 < record["version"]
            since, asked = self._outages.get(circuit_id, (0.0 if lost else opened, False))
            wait_s = instant(record["open_until"]) - opened
            longer = rule not in _NO_RULE and wait_s > self._own_wait_s(record) + _CLOCK_S
            self._outages[circuit_id] = since, asked or longer

    def _own_wait_s(self, record: dict[str, Any]) -> float:
        """Return the longest wait of a circuit whose tool doesn't ask for one."""
        policy = self._policy(record)
        grown = policy.wait_duration_in_open_state_s * policy.backoff_multiplier ** (record["attempt"] - 1)
        return float(min(grown, policy.max_wait_duration_in_open_state_s))

    def _highest(self, record: dict[str, Any], message: Message) -> float:
        """Return the highest share that may be admitted by now."""
        policy = self._policy(record)
        _, asked = self._outages.get(record["circuit_id"], (0.0, False))
        shares = policy.recovery_ramp or (policy.retry_after_ramp if asked else None) or ()
        if record["state"] != "closed" or (record["cause"] or {}).get("rule") not in {
            "probe_succeeded",
            "recovery_ramp",
        }:
            return 1.0
        since = message.timestamp / 1000 - instant(record["changed_at"]) + _CLOCK_S
        step = int(since // policy.recovery_ramp_step_s)
        return float(shares[step]) if step < len(shares) else 1.0

    def _shares(self, record: dict[str, Any]) -> tuple[float, ...]:
        """Return the shares that a circuit may admit."""
        policy = self._policy(record)
        opened, _ = self._outages.get(record["circuit_id"], (0.0, False))
        asked_until = self._asked_until.get(record["circuit_id"], -math.inf)
        asked = asked_until >= opened - _WINDOW_S - _UNOWNED_S
        return policy.recovery_ramp or (policy.retry_after_ramp if asked else None) or ()

    def _policy(self, record: dict[str, Any]) -> BreakerPolicy:
        return self._simulation.by_name[record["tool_name"]].policy

    def _break(self, record: dict[str, Any], what: str) -> None:
        raise self._histories.broken(NAME, record["circuit_id"], what)

    def line(self) -> str:
        """Return the result in one line."""
        steps = ", ".join(f"{share:g}: {count}" for share, count in sorted(self.steps.items())) or "none"
        calls, admitted = (sum(each[place] for each in self._met.values()) for place in (0, 1))
        return (
            f"{NAME}: held (records by share: {steps}; {self.after_retry_after} ramps after Retry-After;"
            f" {admitted} of {calls} calls admitted; {self.reopened} opened again)"
        )
