"""The player of ``family`` scenarios: processes call the tools of servers, as one fleet in memory or each without Kafka.

The worker's fold with its rows, the log, the followers and the guards are the real ones. Instants are seconds of the fleet's clock, in
binary fractions such as 59.5.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast, get_args

import msgspec
import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Permit, Rejection, Switchgear
from switchgear.fleet import Row
from switchgear.policies import PolicySet
from switchgear.testing import InMemoryFleet, MemoryEmitter, MemoryFollower
from switchgear.transport import Wire
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.enums import Verb, status_of
from switchgear_schemas.families import DEFAULT_PATTERN, family_of
from switchgear_schemas.policy import LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT
from tests.acceptance.endings import FAILURES, Outcome, class_of, end, report

CONFIG_KEYS = {"policies", "pattern", "alone", "own_circuits", "outages_in_text"}
"""``policies``: tables as in a policy file. ``alone``: no process has Kafka. ``own_circuits``: the processes of a fleet have circuits of
their own beside the fleet's, by the default policy. ``outages_in_text``: the option of every process."""
ACTION_KEYS = {
    "t", "op", "by", "tool", "tools", "times", "family", "outcome", "ms", "id", "for_s", "policy", "user", "session", "credential",
    "args", "evidence", "recorded_s", "note"
}  # fmt: skip
VERBS = set(get_args(Verb))
FLEET_DECIDES = PolicySet({"mode": "disabled"}, family={"*": {"mode": "disabled"}})
"""Processes without circuits of their own."""
PARTIAL = {"cause", "family_cause", "family_counts"}
"""Expectations that name some of the values."""


class FamilyPlayer:
    """Processes by name, made when they are first named, and the permits that they hold."""

    def __init__(self, config: dict[str, Any]) -> None:
        unknown = set(config) - CONFIG_KEYS
        assert not unknown, f"the adapter does not know the config key(s) {sorted(unknown)}"
        tables = config.get("policies", {})
        assert set(tables) <= {"default", "tools", "family"}, f"the adapter does not know the tables {sorted(tables)}"
        self.pattern = config.get("pattern", DEFAULT_PATTERN)
        self.alone = config.get("alone", False)
        bases: dict[str, Any] = {"base": LOCAL_DEFAULT, "family_base": LOCAL_FAMILY_DEFAULT} if self.alone else {}
        policies = PolicySet(tables.get("default"), tables.get("tools"), family=tables.get("family"), **bases)
        self.fleet = InMemoryFleet(policies, family_pattern=self.pattern)
        self.local_policies = policies if self.alone else None if config.get("own_circuits") else FLEET_DECIDES
        self.processes: dict[str, Switchgear] = {}
        self.followers: dict[str, MemoryFollower] = {}
        self.permits: dict[str, list[Permit]] = {}
        self.outages_in_text = config.get("outages_in_text", ())
        self.guarded: dict[tuple[str, str, bool], Callable[[Outcome, dict[str, Any]], object]] = {}
        """By process and tool, and whether the function is a coroutine function, whose callers can give up."""

    def connect(self, client: Switchgear, *, service: str, buffer_size: int) -> Wire:
        """Connect a process. Its emitter id is its name, because a ramp's choice of calls depends on it."""
        clock = self.fleet.clock
        if self.alone:
            return Wire(clock=clock.monotonic, wall=clock.wall)
        wire = self.fleet.connect(client, service=service, buffer_size=buffer_size)
        cast("MemoryEmitter", wire.emitter).emitter_id = service
        self.followers[service] = cast("MemoryFollower", wire.follower)
        return wire

    def play(self, step: dict[str, Any]) -> None:
        self.fleet.advance(float(step["t"]) - self.fleet.clock.monotonic())
        seen: dict[str, Any] = {}
        operation = self._command if step["op"] in VERBS else getattr(self, f"op_{step['op']}", None)
        assert operation is not None, f"the adapter does not know the operation {step['op']}"
        operation(step, seen)
        for key, expected in step.items():
            if key not in ACTION_KEYS:
                self._compare(key, expected, step, seen)
        assert not self.fleet.log.compacted(self.fleet.names.dead), "the worker could not read a message"

    # ---- operations

    def op_call(self, step, seen):
        """Make calls with permits. With a guard, its result says whether a call was made, but not whether it was a probe.

        All but the number of permits is of the last call.
        """
        seen["permitted"] = 0
        for _ in range(step.get("times", 1)):
            permit = self._acquire(step, seen)
            if permit is not None:
                seen["permitted"] += 1
                report(permit, step["outcome"], self.fleet.advance)

    def op_calls(self, step, seen):
        """Let each process call each tool with ``args``, as often as the step says, by its guarded function."""
        outcome = step["outcome"]
        refused: Counter[str] = Counter()
        permitted = 0
        for _ in range(step.get("times", 1)):
            for by in step["by"]:
                for tool in step["tools"]:
                    permitted += 1
                    try:
                        self._guarded(by, tool, outcome, step.get("args", {}))
                    except CircuitOpenError as error:
                        permitted -= 1
                        refused[self._refused_by(tool, error.rejection)] += 1
                    except FAILURES:
                        pass
        seen["permitted"], seen["refused"] = permitted, dict(refused)

    def op_acquire(self, step, seen):
        """Begin calls. :meth:`op_record` ends them."""
        assert step["id"] not in self.permits, "the scenario has permits of this id"
        asked = [self._acquire(step, seen) for _ in range(step.get("times", 1))]
        permits = [permit for permit in asked if permit is not None]
        if permits:
            self.permits[step["id"]] = permits
        seen["permitted"] = len(permits)

    def op_record(self, step, seen):
        for permit in self.permits.pop(step["id"]):
            report(permit, step["outcome"], self.fleet.advance)

    def op_release(self, step, seen):
        for permit in self.permits.pop(step["id"]):
            permit.release()

    def op_report(self, step, seen):
        """Send the events of calls that a process without a guard made. By its clock they ended at ``recorded_s``."""
        outcome = step["outcome"]
        fields = {"status": "success", "process": step["by"], "execution_time_ms": step.get("ms", 0.0)}
        if outcome != "success":
            fields |= {"status": status_of(outcome), "error_class": outcome, "evidence": step.get("evidence")}
        if "recorded_s" in step:
            fields["recorded_at"] = self.fleet.clock.now() + timedelta(seconds=step["recorded_s"] - step["t"])
        self.fleet.report(step["tool"], times=step.get("times", 1), **fields)

    def op_channel_down(self, step, seen):
        """From now on the process receives no records. Its events arrive."""
        self._process(step["by"])
        self.followers[step["by"]].cut()

    def op_cut_off(self, step, seen):
        """From now on the process receives no records, and its events wait."""
        self.fleet.cut(self._process(step["by"]))

    def op_channel_up(self, step, seen):
        self.fleet.mend(self._process(step["by"]))

    def op_worker_down(self, step, seen):
        self.fleet.stop_worker()

    def op_worker_up(self, step, seen):
        """Let a worker begin with the rows of the one before."""
        self.fleet.start_worker()

    def op_worker_crash(self, step, seen):
        """Let a worker begin that reads the whole log once more, as after a crash before the commit."""
        self.fleet.stop_worker()
        self.fleet.log.committed.clear()
        self.fleet.start_worker()

    def op_check(self, step, seen):
        """Do nothing more: time passes before each step."""

    def _command(self, step, seen):
        """Send an operator's command to the family that the step names, else to its tool."""
        fields: dict[str, Any] = {"circuit_id": circuit_id(step["family"], "family")} if "family" in step else {}
        if "for_s" in step:
            fields["until"] = self.fleet.clock.now() + timedelta(seconds=step["for_s"])
        if "policy" in step:
            fields["policy"] = BreakerPolicy(**step["policy"])
        self.fleet.command(step.get("family") or step["tool"], step["op"], actor="scenario", **fields)

    # ---- what can be seen

    def see_state(self, step):
        return self._state(step["tool"], step)

    def see_family_state(self, step):
        return self._state(self._family_circuit(step), step)

    def see_cause(self, step):
        return msgspec.structs.asdict(self._record(step["tool"]).cause)

    def see_family_cause(self, step):
        return msgspec.structs.asdict(self._record(self._family_circuit(step)).cause)

    def see_family_attempt(self, step):
        return self._record(self._family_circuit(step)).attempt

    def see_family_share(self, step):
        return self._record(self._family_circuit(step)).admitted_share

    def see_probes(self, step):
        """Return the processes that hold a probe of the family."""
        return [lease.emitter_id for lease in self._record(self._family_circuit(step)).leases]

    def see_family_counts(self, step):
        """Return the counts of the family's row, as a worker finds them that begins."""
        rows = self.fleet.log.compacted(self.fleet.names.changelog)
        row = Row.decode(rows[self._family_circuit(step).encode()].value or b"")
        return {"total": row.total_calls, "failed": row.total_failed, "ignored": row.total_ignored, "late": row.late}

    def see_family_seen(self, step):
        """Return the state of the family's circuit in the last record that the process has received."""
        view = self._process(step["by"]).circuits().get(self._family_circuit(step))
        return "closed" if view is None else view.state

    def see_not_closed(self, step):
        """Return the state of every circuit that is not closed: the fleet's, or without Kafka those of the process."""
        if self.alone:
            return dict(self._process(step["by"]).status().local)
        return {name: one.state for name, one in self.fleet.circuits().items() if one.state != "closed"}

    def see_open(self, step):
        return self._process(step["by"]).is_open(step["tool"])

    def see_available(self, step):
        gear = self._process(step["by"])
        return [tool for tool in step["tools"] if not gear.is_open(tool)]

    def see_notice(self, step):
        return self._process(step["by"]).notice()

    # ---- inside

    def _acquire(self, step: dict[str, Any], seen: dict[str, Any]) -> Permit | None:
        tool = step["tool"]
        ids = {"user_id": step.get("user", ""), "session_id": step.get("session"), "credential": step.get("credential")}
        answer = self._process(step["by"]).try_acquire(tool, **ids)
        seen |= {"permit": bool(answer), "probe": False, "refused_by": None, "refused_in": None}
        if isinstance(answer, Rejection):
            seen |= {"refused_by": self._refused_by(tool, answer), "refused_in": answer.source}
            seen |= {"retry_after": answer.retry_after_s, "text": answer.text}
            return None
        seen["probe"] = answer.probe
        return answer

    def _refused_by(self, tool: str, refusal: Rejection) -> str:
        assert refusal.tool == tool
        assert refusal.family in {None, family_of(tool, self.pattern)}
        assert (refusal.family is not None) == (refusal.scope == "family")
        return "tool" if refusal.family is None else "family"

    def _guarded(self, by: str, tool: str, outcome: Outcome, given: dict[str, Any]) -> object:
        """Make a call by a guarded function of the process."""
        waits = isinstance(outcome, dict) and "cancelled" in outcome
        if (by, tool, waits) not in self.guarded:
            self.guarded[by, tool, waits] = self._process(by).guard(tool)(self._waited_for if waits else self._called)
        answer = self.guarded[by, tool, waits](outcome, given)
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer

    def _called(self, outcome: Outcome, _given: dict[str, Any]) -> object:
        return end(outcome, self.fleet.advance)

    async def _waited_for(self, outcome: Outcome, _given: dict[str, Any]) -> object:
        return end(outcome, self.fleet.advance)

    def _process(self, name: str) -> Switchgear:
        if name not in self.processes:
            self.processes[name] = Switchgear(
                self,
                service=name,
                probe_wait=0.0,
                local_policies=self.local_policies,
                family_pattern=self.pattern,
                classify=class_of,
                outages_in_text=self.outages_in_text,
            )
        return self.processes[name]

    def _family_circuit(self, step: dict[str, Any]) -> str:
        family = step["family"] if "family" in step else family_of(step["tool"], self.pattern)
        assert family is not None, f"{step['tool']} has no family"
        return circuit_id(family, "family")

    def _state(self, circuit_id: str, step: dict[str, Any]) -> str:
        if self.alone:
            return self._process(step["by"]).status().local.get(circuit_id, "closed")
        return self.fleet.state(circuit_id)

    def _record(self, circuit_id: str) -> Circuit:
        return self.fleet.circuits()[circuit_id]

    def _compare(self, key: str, expected: Any, step: dict[str, Any], seen: dict[str, Any]) -> None:
        look = getattr(self, f"see_{key}", None)
        assert key in seen or look is not None, f"the adapter does not know the expectation {key}"
        found = seen[key] if look is None else look(step)
        if key in PARTIAL:
            assert set(expected) <= set(found), f"the adapter does not know {sorted(set(expected) - set(found))}"
            found = {name: found[name] for name in expected}
        assert found == (pytest.approx(expected) if key == "retry_after" else expected), key
