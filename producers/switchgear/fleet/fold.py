"""The fold: the log goes in, rows and records come out. The same log gives the same rows, wherever it is cut and replayed.

This rests on three things. A row keeps the last offset that it applied from each partition, and skips a replay at or below it. The
row and that offset are one value, written at once. Time is the broker's timestamp of the record, so a replay decides as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from switchgear.breaker import Breaker, ProbeLease, Result, ResultKind, Transition, family_result_kind
from switchgear.breaker.states import PASSING, outage_began
from switchgear.breaker.values import is_split
from switchgear.fleet.circuit import LIMIT_EVERY_S, LiveCircuit
from switchgear.fleet.commands import fold_command
from switchgear.fleet.log import MAX_EMITTER_ID, Changes, LogRecord, dead_letter, origin_of, rekeyed, result_of
from switchgear.fleet.registry import CircuitRegistry, Limits, PolicySource
from switchgear.fleet.rows import Row, describe_error
from switchgear.fleet.run import is_plain
from switchgear.fleet.takeover import Known, reconcile
from switchgear_schemas import BreakerPolicy, Cause, CircuitScope, InvalidExecutionError
from switchgear_schemas.enums import MAX_NAME_LENGTH, TARGET_ERROR
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.records import LATEST_MS, check_readable, check_time
from switchgear_schemas.wire import Execution, decode_execution

_MS: Final = 1e-3
_Fence = tuple[int, int]
"""Partition and offset of an execution, which each row applies once."""


class FleetFold:
    """Folds executions and commands into the rows of the circuits that one worker owns.

    Args:
        rows: The table. It is only read.
        policies: The policy file.
        partitions: Number of partitions in which circuits are kept.
        late_after_s: An execution recorded longer than this before the broker got it is not counted.
        limits: How many circuits there may be.
        family_pattern: Which tools belong to a family.
    """

    def __init__(
        self,
        rows: Mapping[bytes, bytes],
        policies: PolicySource,
        *,
        partitions: int,
        late_after_s: float,
        limits: Limits | None = None,
        family_pattern: str = DEFAULT_PATTERN,
    ) -> None:
        self.registry = CircuitRegistry(
            rows, policies, partitions=partitions, limits=limits or Limits(), family_pattern=family_pattern
        )
        self._partitions = partitions
        self._late_after_s = late_after_s

    def take(self) -> Changes:
        """Return everything since the last call, rows encoded. Write the rows into the table before you fold on."""
        return self.registry.take()

    def roll_back(self) -> None:
        """Undo everything since the last :meth:`take`: the rows stay as they are in the table."""
        self.registry.roll_back()

    def forget(self) -> None:
        """Drop everything in memory, because the rows changed hands."""
        self.registry.forget()

    def executions(self, records: Iterable[LogRecord]) -> None:
        """Fold a batch of the executions topic, in its order."""
        running = self.registry.running
        for record in records:
            try:
                if record.value is None:
                    check_readable(record)
                event = decode_execution(record.value)
                tool = running.get(event.tool_name)
                if tool is not None and self._goes_with_run(tool, record, event):
                    continue
                if not 0 <= record.timestamp < LATEST_MS:
                    check_time(record)
                self._execution(record, event)
            except InvalidExecutionError as error:
                self.registry.changes.dead.append(dead_letter(record, error.field, error.reason))

    def commands(self, records: Iterable[LogRecord]) -> None:
        """Fold a batch of the commands topic, in its order.

        Raises:
            RowError: A row of the table is damaged or of another version.
        """
        for record in records:
            fold_command(record, self.registry)

    def take_over(self, known: Known) -> dict[str, str]:
        """Continue above what the circuits topic holds, and publish again what differs from the rows.

        Returns:
            State by circuit id, of the circuits that are not closed.
        """
        self.registry.sources = 1 + max([self._partitions - 1, *known.execution_ends, *known.command_ends])
        return reconcile(self.registry, known)

    def _goes_with_run(self, tool: LiveCircuit, record: LogRecord, event: Execution) -> bool:
        """Count a plain success in the runs of its tool and its family. Return False if one of them doesn't take it."""
        run, now, recorded = tool.run, record.timestamp * _MS, event.recorded_s
        if run is None or not is_plain(record, event) or not run.admits(record, event, event.generation, now):
            return False
        if recorded is not None and now - recorded > self._late_after_s:
            return False
        family = tool.run_family
        if family is not None and not self._goes_with_family(family, record, event, now):
            return False
        if run.add(record, event, now):
            self.registry.touch(tool)
        run.durations.append(event.execution_time_ms or 0.0)
        self.registry.changes.folded += 1
        return True

    def _goes_with_family(self, family: LiveCircuit, record: LogRecord, event: Execution, now: float) -> bool:
        """Count a plain success in the run of its family, if that takes it."""
        run = family.run
        if run is None or not run.admits(record, event, event.family_generation, now):
            return False
        if run.add(record, event, now):
            self.registry.touch(family)
        return True

    def _execution(self, record: LogRecord, event: Execution) -> None:
        registry, changes = self.registry, self.registry.changes
        fence: _Fence = (record.partition, record.offset)
        if record.headers:
            fence = origin_of(record, registry.sources)
        place = registry.place_of(event.tool_name)
        if place.partition != record.partition:
            changes.rekeyed.append(rekeyed(record, event.tool_name))
            return
        arrived = record.timestamp * _MS
        recorded = event.recorded_s
        late = recorded is not None and arrived - recorded > self._late_after_s
        family = None
        if place.family is not None:
            family = registry.live.get(place.family_circuit) or registry.family(place.family, arrived)
        live = self._circuit(event, place.circuit, arrived, fence, late=late)
        if live is None:
            changes.duplicates += 1
        else:
            changes.folded += 1
            changes.late += late
            self._begin(live, arrived, late=late)
        # After a crash between the rows of the tool and of the family, the replay is new to the family alone.
        counting = None
        plain = is_plain(record, event) and not late
        if family is not None and not (plain and self._goes_with_family(family, record, event, arrived)):
            counting = self._counting(family, arrived, fence, late=late)
        if late:
            _count_late(live, counting)
        elif event.status == "rejected":
            self._rejected(live, family, event, counts_for_family=counting is not None)
        else:
            self._count(live, family, counting, record, event)

    def _counting(self, family: LiveCircuit, arrived: float, fence: _Fence, *, late: bool) -> LiveCircuit | None:
        """Return the family, with its fence raised, or None if it has counted the event."""
        family.pause_run(arrived)
        if not self._raise_fence(family, fence):
            return None
        self._renew_limit(family, arrived)
        self._begin(family, arrived, late=late)
        return family

    def _circuit(self, event: Execution, own: str, arrived: float, fence: _Fence, *, late: bool) -> LiveCircuit | None:
        """Return the circuit that counts the event, with its fence raised. Return None for a replay.

        ``own`` is the id of the tool's own circuit. Its fence comes first: a replay may find other circuits of users or targets than
        the first reading did.
        """
        registry = self.registry
        tool = registry.live.get(own) or registry.tool(event.tool_name, arrived)
        tool.pause_run(arrived)
        if not self._raise_fence(tool, fence):
            return None
        if event.status == "success" and event.error_class is None:
            tool.durations.add(event.execution_time_ms or 0.0)
        if tool.announces:
            tool.row.clock = max(arrived, tool.row.clock)
            registry.add_record(tool.next_record(tool.row.clock))
        self._renew_limit(tool, arrived)
        if not late and (tool.paces or event.error_class == "rate_limited"):
            registry.add_record(tool.pace(event, arrived))
        scope, name = _whose(tool.policy, event)
        if not name or len(name) > MAX_NAME_LENGTH:  # too long for a circuit's id
            return tool
        if not late:
            registry.add_record(tool.follow_clock(arrived))
            # Events of users, sessions and targets don't reach the tool's own circuit, so its timers run here.
            if tool.row.command_until is not None:
                registry.add_record(tool.end_command(tool.row.clock))
            if tool.breaker.admitted_share < 1:
                self._begin(tool, arrived, late=late)
        live = registry.scoped(tool, scope, name, arrived)
        if live is tool:
            return tool
        return live if self._raise_fence(live, fence) else None

    def _raise_fence(self, live: LiveCircuit, fence: _Fence) -> bool:
        row = live.row
        partition, offset = fence
        if offset <= row.fences.get(partition, -1):
            return False
        row.fences[partition] = offset
        row.applied += 1
        self.registry.touched[row.circuit_id] = live
        return True

    def _renew_limit(self, live: LiveCircuit, arrived: float) -> None:
        """Publish after how long calls are overdue, if that has changed. Of users and sessions the tool's own record says it."""
        if arrived >= live.row.limit_at + LIMIT_EVERY_S:
            self.registry.add_record(live.renew_limit(max(arrived, live.row.clock)))

    def _begin(self, live: LiveCircuit, arrived: float, *, late: bool) -> None:
        """Set the circuit's clock, and apply what time alone changes. Announce a new circuit that did not start closed.

        A late event moves no clock: to a broker whose clock is ahead, every event looks late.
        """
        if late:
            return
        row = live.row
        if arrived >= row.clock:
            row.clock = arrived
        else:
            self.registry.add_record(live.follow_clock(arrived))
        if live.breaker.state == "closed" and live.breaker.admitted_share == 1:
            return
        self.registry.add_record(live.end_command(row.clock))
        transition = live.breaker.advance(row.clock)
        if transition is not None:
            self.registry.add_record(live.follow(transition, row.clock))
        elif row.record is None:
            self.registry.add_record(live.next_record(row.clock))

    def _rejected(
        self, live: LiveCircuit | None, family: LiveCircuit | None, event: Execution, *, counts_for_family: bool
    ) -> None:
        """Count a refusal, and grant the probe that it asks for. While the family refuses calls, it alone grants probes."""
        by_family = family is not None and family.breaker.state not in PASSING
        asked = family if by_family or _holds_newer(event.family_generation, family) else live
        for each in (live, family if by_family and counts_for_family else None):
            if each is not None:
                each.row.rejected += 1
                each.row.total_rejected += 1
        if not event.probe_requested or not event.emitter_id or asked is None:
            return
        if asked is family and not counts_for_family:
            return
        now, emitter_id = asked.row.clock, event.emitter_id[:MAX_EMITTER_ID]
        transition = asked.breaker.request_lease(now, emitter_id)
        if transition is not None:
            self.registry.changes.leases += 1
            self.registry.add_record(asked.follow(transition, now))
        elif asked.breaker.state == "closed" and (asked is family or _holds_outdated_record(event, asked)):
            self.registry.add_record(asked.next_record(now, Cause(rule="asked", actor=emitter_id)))

    def _count(
        self,
        live: LiveCircuit | None,
        family: LiveCircuit | None,
        counting: LiveCircuit | None,
        record: LogRecord,
        event: Execution,
    ) -> None:
        """Count a call, or a report that it is overdue, for its tool, then for the tool's family, unless a run of it has."""
        result, recorded = None, event.recorded_s
        if live is not None:
            result = result_of(event, live.policy)
            self._report(live, result, event, recorded, event.generation, event.lease_id)
            self._begin_run(live, result, record, event.generation, family)
        if counting is not None:
            answered = event.error_type == TARGET_ERROR  # the server, whatever it said of the call's target
            kind = family_result_kind(event.status, "tool" if answered else event.error_class, counting.policy)
            if result is None or result.kind is not kind:
                result = result_of(event, counting.policy, kind)
            moved = self._report(counting, result, event, recorded, event.family_generation, event.family_lease_id)
            if moved is not None:
                self._follow_family(counting, moved)
            self._begin_run(counting, result, record, event.family_generation)

    def _begin_run(
        self,
        live: LiveCircuit,
        result: Result,
        record: LogRecord,
        generation: int | None,
        family: LiveCircuit | None = None,
    ) -> None:
        """Count further successes together, if the circuit has just judged one, or ignored a call in the middle of a run."""
        row, ignored = live.row, result.kind is ResultKind.IGNORED and not result.credential
        if record.headers or not (result.kind is ResultKind.SUCCESS or (ignored and live.resumes)):
            return
        if row.scope == "tool" and not is_split(live.policy):
            self.registry.running[row.tool_name] = live
        elif row.scope != "family":
            return
        live.begin_run(record, generation, family)

    def _report(
        self,
        live: LiveCircuit,
        result: Result,
        event: Execution,
        recorded: float | None,
        generation: int | None,
        lease_id: str | None,
    ) -> Transition | None:
        row, breaker = live.row, live.breaker
        now = row.clock
        if result.kind is not ResultKind.OVERDUE:  # else its end is a call
            _add_to_totals(row, result.kind, event)
        # Of an unguarded call only the end is known: by the broker's clock, and by the caller's if that is earlier.
        # The earlier one counts, so that a call made before the wait was over never passes for a probe.
        ended = now if recorded is None or recorded > now else recorded
        probes = _probes(breaker)
        transition = breaker.record_event(
            now,
            result,
            generation=generation,
            lease_id=lease_id,
            started_at=ended - result.duration_ms * _MS,
        )
        if transition is not None:
            self.registry.add_record(live.follow(transition, now))
        elif probes is not None and probes != _probes(breaker):
            # A probe came back and decided nothing yet. Without this record its process would keep a used lease.
            self.registry.add_record(live.next_record(now, Cause(rule="probe_returned", actor=result.reporter or None)))
        return transition

    def _follow_family(self, family: LiveCircuit, moved: Transition) -> None:
        """Note when an outage of a family began. At its end, let the circuits that opened since then be probed at once."""
        row, now = family.row, family.row.clock
        if moved.state == "open" and moved.previous == "closed":
            row.outage_at = max(0.0, outage_began(family.policy, moved.at))
        elif moved.state == "closed":
            since, row.outage_at = row.outage_at, None
            if since is None:
                return
            cause = Cause(rule="family_recovered", actor=None, reason=row.tool_name)
            for live in self.registry.open_of_family(row.tool_name):
                if live.breaker.changed_at < since or live.row.clock > now:  # a replay: the row has what came later
                    continue
                transition = live.breaker.end_wait_early(now, cause)
                if transition is not None:
                    live.row.clock = now
                    live.row.applied += 1
                    self.registry.add_record(live.follow(transition, now))
                    self.registry.touch(live)


def _add_to_totals(row: Row, kind: ResultKind, event: Execution) -> None:
    row.total_calls += 1
    if kind is ResultKind.FAILURE:
        row.total_failed += 1
        row.last_error = describe_error(event.error_type, event.error_message, event.status)
        row.last_error_class = event.error_class or ("timeout" if event.status in {"timeout", "overdue"} else "unknown")
    elif kind is ResultKind.IGNORED or (event.status != "success" and row.scope != "family"):
        row.total_ignored += 1


def _whose(policy: BreakerPolicy, event: Execution) -> tuple[CircuitScope, str | None]:
    """Return the scope of the circuit that counts the event, and whose it is."""
    if policy.target is not None:
        return "target", event.target
    scope = policy.scope
    if scope == "tool":
        return scope, None
    return scope, event.user_id if scope == "user" else event.session_id if scope == "session" else event.tenant


def _count_late(*circuits: LiveCircuit | None) -> None:
    for live in circuits:
        if live is not None:
            live.row.late += 1


def _holds_newer(generation: int | None, live: LiveCircuit | None) -> bool:
    """Return whether a caller holds a record from before this circuit, such as one that a paused former owner wrote."""
    return live is not None and live.breaker.state == "closed" and (generation or 0) > live.breaker.generation


def _holds_outdated_record(event: Execution, live: LiveCircuit) -> bool:
    about_family = event.generation is None and event.family_generation is not None
    return (live.row.record is None and not about_family) or _holds_newer(event.generation, live)


def _probes(breaker: Breaker) -> tuple[tuple[ProbeLease, ...], int] | None:
    """Return the leases that are out and the permits left, or None if the circuit is not half-open."""
    return (breaker.leases, breaker.remaining_probes) if breaker.state == "half_open" else None
