"""The fold: the log goes in, rows and records come out. The same log gives the same rows, wherever it is cut and replayed.

This rests on three things. A row keeps the last offset that it applied from each partition, and skips a replay at or below it. The
row and that offset are one value, written at once. Time is the broker's timestamp of the record, so a replay decides as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from switchgear.breaker import Breaker, ProbeLease, ResultKind
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.commands import fold_command
from switchgear.fleet.log import MAX_EMITTER_ID, Changes, LogRecord, dead_letter, origin_of, rekeyed, result_of
from switchgear.fleet.registry import CircuitRegistry, Limits, Policies
from switchgear.fleet.rows import describe_error
from switchgear.fleet.takeover import Known, reconcile
from switchgear_schemas import Cause, InvalidExecutionError
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.records import LATEST_MS, check_readable, check_time
from switchgear_schemas.wire import Execution, decode_execution

_MS: Final = 1e-3


class FleetFold:
    """Folds executions and commands into the rows of the circuits that one worker owns.

    Args:
        rows: The table. It is only read.
        policies: The policy file.
        partitions: Number of partitions of the executions topic.
        late_after_s: An execution recorded longer than this before the broker got it is not counted.
        limits: How many circuits there may be.
    """

    def __init__(
        self,
        rows: Mapping[bytes, bytes],
        policies: Policies,
        *,
        partitions: int,
        late_after_s: float,
        limits: Limits | None = None,
    ) -> None:
        self.registry = CircuitRegistry(rows, policies, partitions=partitions, limits=limits or Limits())
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
        for record in records:
            try:
                if record.value is None:
                    check_readable(record)
                self._execution(record, decode_execution(record.value))
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
        return reconcile(self.registry, known)

    def _execution(self, record: LogRecord, event: Execution) -> None:
        if not 0 <= record.timestamp < LATEST_MS:
            check_time(record)
        changes = self.registry.changes
        origin = origin_of(record, self._partitions) if record.headers else (record.partition, record.offset)
        if owner_partition(event.tool_name, self._partitions) != record.partition:
            changes.rekeyed.append(rekeyed(record, event.tool_name, origin))
            return
        arrived = record.timestamp * _MS
        live = self._circuit(event, arrived, *origin)
        if live is None:
            changes.duplicates += 1
            return
        row = live.row
        changes.folded += 1
        now = row.clock = max(arrived, row.clock)
        if live.breaker.state != "closed":
            self._apply_time(live, now)
        recorded = event.recorded_s
        if recorded is not None and arrived - recorded > self._late_after_s:
            row.late += 1
            changes.late += 1
        elif event.status == "rejected":
            self._rejected(live, event, now)
        else:
            self._count(live, event, now, recorded)

    def _circuit(self, event: Execution, arrived: float, partition: int, offset: int) -> LiveCircuit | None:
        """Return the circuit that counts the event, with its fence raised. Return None for a replay.

        The tool's fence comes first: a replay may find other circuits of users or sessions than the first reading did.
        """
        registry, tool_name = self.registry, event.tool_name
        tool = registry.live.get(tool_name) or registry.tool(tool_name, arrived)
        if not self._raise_fence(tool, partition, offset):
            return None
        scope = tool.policy.scope
        name = None if scope == "tool" else event.user_id if scope == "user" else event.session_id
        if not name or len(name) > MAX_NAME_LENGTH:  # too long for a circuit's id
            return tool
        if tool.row.command_until is not None:  # events of users and sessions don't reach the tool's own circuit
            registry.publish(tool.end_command(max(arrived, tool.row.clock)))
        live = registry.scoped(tool, scope, name, arrived)
        if live is tool:
            return tool
        tool.row.clock = max(arrived, tool.row.clock)
        return live if self._raise_fence(live, partition, offset) else None

    def _raise_fence(self, live: LiveCircuit, partition: int, offset: int) -> bool:
        row = live.row
        if offset <= row.fences.get(partition, -1):
            return False
        row.fences[partition] = offset
        row.applied += 1
        self.registry.touched[row.circuit_id] = live
        return True

    def _apply_time(self, live: LiveCircuit, now: float) -> None:
        """Apply what time alone changes, with the first event after it. Announce a new circuit that did not start closed."""
        self.registry.publish(live.end_command(now))
        transition = live.breaker.advance(now)
        if transition is not None:
            self.registry.publish(live.follow(transition, now))
        elif live.row.record is None:
            self.registry.publish(live.publish(now))

    def _rejected(self, live: LiveCircuit, event: Execution, now: float) -> None:
        live.row.rejected += 1
        live.row.total_rejected += 1
        if not event.probe_requested or not event.emitter_id:
            return
        emitter_id = event.emitter_id[:MAX_EMITTER_ID]
        transition = live.breaker.request_lease(now, emitter_id)
        if transition is not None:
            self.registry.changes.leases += 1
            self.registry.publish(live.follow(transition, now))
        elif live.breaker.state == "closed" and _holds_outdated_record(event, live):
            self.registry.publish(live.publish(now, Cause(rule="asked", actor=emitter_id)))

    def _count(self, live: LiveCircuit, event: Execution, now: float, recorded: float | None) -> None:
        row = live.row
        row.total_calls += 1
        result = result_of(event, live.policy)
        if result.kind is ResultKind.FAILURE:
            row.total_failed += 1
            row.last_error = describe_error(event.error_type, event.error_message, event.status)
        elif event.status != "success" or result.kind is ResultKind.IGNORED:
            row.total_ignored += 1
        # Of an unguarded call only the end is known: by the broker's clock, and by the caller's if that is earlier.
        # The earlier one counts, so that a call made before the wait was over never passes for a probe.
        ended = now if recorded is None or recorded > now else recorded
        probes = _probes(live.breaker)
        transition = live.breaker.record_event(
            now,
            result,
            generation=event.generation,
            lease_id=event.lease_id,
            started_at=ended - result.duration_ms * _MS,
        )
        if transition is not None:
            self.registry.publish(live.follow(transition, now))
        elif probes is not None and probes != _probes(live.breaker):
            # A probe came back and decided nothing yet. Without this record its process would keep a used lease.
            self.registry.publish(live.publish(now, Cause(rule="probe_returned", actor=result.reporter or None)))


def _holds_outdated_record(event: Execution, live: LiveCircuit) -> bool:
    """Return whether the caller holds a record from before this circuit, such as one that a paused former owner wrote."""
    return live.row.record is None or (event.generation or 0) > live.breaker.generation


def _probes(breaker: Breaker) -> tuple[tuple[ProbeLease, ...], int] | None:
    """Return the leases that are out and the permits left, or None if the circuit is not half-open."""
    return (breaker.leases, breaker.remaining_probes) if breaker.state == "half_open" else None
