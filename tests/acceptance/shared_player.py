"""The player of ``shared`` scenarios: the owner's Breaker, a log of circuit records, and one CircuitTable per process."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind, Transition
from switchgear.follower.table import CircuitTable
from switchgear_schemas.circuit import Circuit, Lease
from tests.acceptance.local_player import OUTCOMES
from tests.acceptance.policy_of import policy_of

EPOCH = 1_700_000_000.0
"""The instant of a scenario's t = 0. Records have instants."""
TOOL = "scenario"
ACTION_KEYS = {"t", "op", "by", "outcome", "ms", "expected", "save_version", "note"}


class Process:
    """The records that a process has read."""

    def __init__(self) -> None:
        self.table = CircuitTable()
        self.read = 0
        self.connected = True


class SharedPlayer:
    """One owner and any number of processes. A trip is a counted failure with a policy that opens at the first one."""

    def __init__(self, config: dict[str, Any]) -> None:
        more = {} if "consecutive_failures" in config else {"consecutive_failures": 1}
        self.owner = Breaker(TOOL, policy_of(config, **more), EPOCH)
        self.log: list[bytes] = []
        self.saved: dict[str, int] = {}
        self.processes: dict[str, Process] = defaultdict(Process)

    def play(self, step: dict[str, Any]) -> None:
        now = EPOCH + step["t"]
        self._publish(self.owner.advance(now))
        seen: dict[str, Any] = {"raises": False}
        operation = getattr(self, f"op_{step['op']}", None)
        assert operation is not None, f"the adapter does not know the operation {step['op']}"
        self._publish(operation(now, step, seen))
        if "save_version" in step:
            self.saved[step["save_version"]] = self.owner.generation
        for key, expected in step.items():
            if key in ACTION_KEYS:
                continue
            if key == "state":
                assert self.owner.state == expected
            elif key == "remaining":
                assert self.owner.remaining_probes == expected
            else:
                assert key in ("permit", "granted", "raises"), f"the adapter does not know the expectation {key}"
                assert seen.get(key) == expected, key

    # ---- operations

    def op_trip(self, now, step, seen):
        generation = self.saved[step["expected"]] if "expected" in step else self.owner.generation
        if "expected" not in step and self.owner.state == "half_open":
            return self.op_probe_result(now, step | {"outcome": "failure"}, seen)
        return self.owner.record_event(now, Result(ResultKind.FAILURE), generation=generation, lease_id=None)

    op_open = op_trip

    def op_begin_half_open(self, now, step, seen):
        until = self.owner.open_until
        if self.owner.state == "open" and until is not None and now >= until:
            return self.owner.transition_to("half_open", now, actor=step["by"])
        return None

    def op_lease(self, now, step, seen):
        before = len(self.owner.leases)
        transition = self.owner.request_lease(now, self._caller(step["by"]))
        seen["granted"] = len(self.owner.leases) > before
        return transition

    def op_release(self, now, step, seen):
        lease = self._lease_of(step["by"])
        assert lease is not None
        self.owner.release(BreakerPermit(TOOL, self.owner.generation, lease), now)

    def op_probe_result(self, now, step, seen):
        generation = self.saved[step["expected"]] if "expected" in step else self.owner.generation
        lease = self._lease_of(step["by"])
        if lease is None and generation == self.owner.generation:
            self._publish(self.owner.request_lease(now, step["by"]))
            lease = self._lease_of(step["by"])
            generation = self.owner.generation
        result = Result(OUTCOMES[step["outcome"]], duration_ms=float(step.get("ms", 0)), reporter=step["by"])
        return self.owner.record_event(now, result, generation=generation, lease_id=lease)

    op_record = op_probe_result

    def op_close(self, now, step, seen):
        if "expected" in step and self.saved[step["expected"]] != self.owner.generation:
            return None
        return self.owner.command("close", now, actor=step.get("by", "scenario"))

    def op_reset(self, now, step, seen):
        return self.owner.command("reset", now, actor=step.get("by", "scenario"))

    def op_follow(self, now, step, seen):
        process = self.processes[step["by"]]
        if process.connected:
            for value in self.log[process.read :]:
                process.table.apply(TOOL.encode(), value)
            process.read = len(self.log)

    def op_channel_down(self, now, step, seen):
        self.processes[step["by"]].connected = False

    def op_channel_up(self, now, step, seen):
        self.processes[step["by"]].connected = True

    def op_check(self, now, step, seen):
        return None

    def op_allow(self, now, step, seen):
        view = self.processes[step["by"]].table.views.get(TOOL)
        leased = view is not None and any(
            lease.emitter_id == step["by"] and lease.expires_at > now for lease in view.leases
        )
        seen["permit"] = view is None or view.passes or leased

    op_acquire = op_allow

    # ---- inside

    def _caller(self, by: str) -> str:
        """Let a process ask for probes with several calls. Each is a separate caller."""
        held = sum(lease.emitter_id.partition("#")[0] == by for lease in self.owner.leases)
        return by if not held else f"{by}#{held}"

    def _lease_of(self, by: str) -> str | None:
        mine = (lease.lease_id for lease in self.owner.leases if lease.emitter_id.partition("#")[0] == by)
        return next(mine, None)

    def _publish(self, transition: Transition | None) -> None:
        if transition is None:
            return
        record = Circuit(
            circuit_id=TOOL,
            tool_name=TOOL,
            state=transition.state,
            previous_state=transition.previous,
            version=len(self.log) + 1,
            generation=transition.generation,
            cause=transition.cause,
            changed_at=_instant(transition.at),
            open_until=None if transition.open_until is None else _instant(transition.open_until),
            attempt=transition.attempt,
            admitted_share=self.owner.admitted_share,
            leases=tuple(
                Lease(lease_id=one.lease_id, emitter_id=one.emitter_id, expires_at=_instant(one.expires_at))
                for one in self.owner.leases
            ),
            counts=transition.counts,
        )
        self.log.append(record.to_bytes())


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
