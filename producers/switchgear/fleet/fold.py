"""The fold: the log in, rows and records out. The same log gives the same rows, wherever it is cut and replayed.

Exactness rests on three things: a row keeps the last offset it applied from each partition and skips a replay at or below it; the
row and that offset are one value, written at once; and time is the record's broker timestamp, so a replay decides as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Final

from switchgear.breaker import Breaker, ProbeLease, Result, ResultKind, result_kind
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.commands import fold_command
from switchgear.fleet.log import Changes, LogRecord, Published, Rekeyed, dead_letter, origin_of
from switchgear.fleet.policy_overrides import partition_key
from switchgear.fleet.registry import CircuitRegistry, Limits, Policies
from switchgear.fleet.rows import describe_error
from switchgear.fleet.takeover import Known, reconcile
from switchgear_schemas import Cause, InvalidExecutionError
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.headers import REKEYED, RESENT
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.records import LATEST_MS, check_readable, check_time
from switchgear_schemas.wire import Execution, decode_execution

_MS: Final = 1e-3
MAX_TOKENS: Final = 2**40
"""Of one call; a sum over the longest window then still fits the 64 bits of a snapshot."""
MAX_RETRY_AFTER_S: Final = 86_400.0
"""A tool that asks for more than a day is asked again after one."""
MAX_EMITTER_ID: Final = 128
"""Characters that a row keeps of ``emitter_id``: with a thousand leases the circuit's record still fits its topic."""
MAX_COPIED_BYTES: Final = 16_384
"""Headers of a stranger's that a copy for its tool's own partition keeps, names and values together; with more it has ours alone."""


class FleetFold:
    """Folds executions and commands into the rows of the circuits that one worker owns.

    Args:
        rows: the table as it is; read only. The caller writes the rows of :meth:`take` into it before the next fold.
        policies: the policy file.
        partitions: of the executions topic.
        late_after_s: an execution recorded longer than this before the broker got it is not counted.
        limits: how many circuits there may be.
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
        self._shelf = CircuitRegistry(rows, policies, partitions=partitions, limits=limits or Limits())
        self._partitions = partitions
        self._late_after_s = late_after_s
        self._changes = Changes()
        self._touched: dict[str, LiveCircuit] = {}

    def forget(self) -> None:
        """Drop every cache and everything untaken: the rows changed hands."""
        self._shelf.forget()
        self._changes = Changes()
        self._touched.clear()

    def take(self) -> Changes:
        """Everything since the last call, rows encoded; the fold starts a new batch.

        Rows of users and sessions come first, then the tools' (whose fences cover them), then the rows that go: a crash may leave any
        beginning of that order on the broker, and the replay is exact from each.
        """
        changes, self._changes = self._changes, Changes()
        for tools in (False, True):
            for live in self._touched.values():
                if (live.row.scope == "tool") is tools:
                    changes.rows[live.row.key] = (live.row.tool_name, live.encode())
        for gone in self._shelf.gone.values():
            changes.rows[gone.row.key] = (gone.row.tool_name, None)
        for standing in changes.standing.values():
            changes.rows[standing.key] = (partition_key(standing.partition, self._partitions), standing.encode())
        self._touched.clear()
        return changes

    def roll_back(self) -> None:
        """Undo everything since the last :meth:`take`: the rows stay as they are in the table."""
        self._shelf.roll_back()
        self._changes = Changes()
        self._touched.clear()

    def settle(self) -> None:
        """The rows taken last are in the table: caches may shrink."""
        self._shelf.settle()

    def executions(self, records: Iterable[LogRecord]) -> None:
        """Fold a batch of the executions topic, in its order."""
        for record in records:
            try:
                check_readable(record)
                self._execution(record, decode_execution(record.value))
            except InvalidExecutionError as error:
                self._changes.dead.append(dead_letter(record, error.field, error.reason))

    def commands(self, records: Iterable[LogRecord]) -> None:
        """Fold a batch of the commands topic, in its order.

        Raises:
            RowError: a row of the table is of another version or damaged.
        """
        for record in records:
            fold_command(record, self._shelf, self._partitions, self._changes, self._touch)
            self._bury_retired()

    def take_over(self, known: Known) -> dict[str, str]:
        """Continue above what the circuits topic already holds, and publish again what differs from the rows.

        Returns:
            State by circuit id, of those that are not closed.
        """
        return reconcile(self._shelf, known, self._changes, self._touch)

    def _touch(self, live: LiveCircuit) -> None:
        self._touched[live.row.circuit_id] = live

    def _execution(self, record: LogRecord, event: Execution) -> None:
        tool_name = event.tool_name
        if not 0 <= record.timestamp < LATEST_MS:
            check_time(record)
        partition, offset = origin_of(record, self._partitions) if record.headers else (record.partition, record.offset)
        owner = owner_partition(tool_name, self._partitions)
        if owner != record.partition:
            self._rekey(record, tool_name, partition, offset)
            return
        live = self._circuit(event, record.timestamp * _MS, partition, offset)
        if live is None:
            self._changes.duplicates += 1
            return
        row = live.row
        self._changes.folded += 1
        arrived = record.timestamp * _MS
        now = row.clock = max(arrived, row.clock)
        if live.breaker.state != "closed":
            self._wake(live, now)
        recorded = _recorded(event)
        if recorded is not None and arrived - recorded > self._late_after_s:
            row.late += 1
            self._changes.late += 1
        elif event.status == "rejected":
            self._rejected(live, event, now)
        else:
            self._count(live, event, now, recorded)

    def _circuit(self, event: Execution, arrived: float, partition: int, offset: int) -> LiveCircuit | None:
        """The circuit that counts the event, its fence raised; null for a replay.

        The tool's fence is asked before a user's or session's circuit is looked for: what a replay finds there may be different
        circuits from those of the first reading.
        """
        tool_name = event.tool_name
        tool = self._shelf.awake.get(tool_name) or self._shelf.tool(tool_name, arrived)
        if not self._pass(tool, partition, offset):
            return None
        scope = tool.policy.scope
        whose = None if scope == "tool" else event.user_id if scope == "user" else event.session_id
        if not whose or len(whose) > MAX_NAME_LENGTH:  # too long for a circuit's id
            return tool
        if tool.row.command_until is not None:  # no event of a user or session wakes the tool's own circuit
            self._end_standing(tool, max(arrived, tool.row.clock))
        live = self._shelf.scoped(tool, scope, whose, arrived)
        self._bury_retired()
        if live is tool:
            return tool
        tool.row.clock = max(arrived, tool.row.clock)
        return live if self._pass(live, partition, offset) else None

    def _pass(self, live: LiveCircuit, partition: int, offset: int) -> bool:
        row = live.row
        if offset <= row.fences.get(partition, -1):
            return False
        row.fences[partition] = offset
        row.applied += 1
        self._touch(live)
        return True

    def _bury_retired(self) -> None:
        for live in self._shelf.retired:
            row = live.row
            self._changes.retired += 1
            self._touched.pop(row.circuit_id, None)
            if row.record is not None:
                self._publish(Published(row.circuit_id, row.tool_name, "closed", row.version, None))
        self._shelf.retired.clear()

    def _end_standing(self, live: LiveCircuit, now: float) -> None:
        """What an operator commanded for a time ends with the first event after it."""
        published = live.end_standing(now)
        if published is not None:
            self._publish(published)

    def _wake(self, live: LiveCircuit, now: float) -> None:
        """Time-driven changes happen with the first event after them; a circuit born pinned is announced once."""
        self._end_standing(live, now)
        transition = live.breaker.advance(now)
        if transition is not None:
            self._publish(live.follow(transition, now))
        elif live.row.record is None:
            self._publish(live.publish(now))

    def _publish(self, published: Published) -> None:
        self._changes.circuits.append(published)

    def _rejected(self, live: LiveCircuit, event: Execution, now: float) -> None:
        live.row.rejected += 1
        live.row.total_rejected += 1
        if not event.probe_requested or not event.emitter_id:
            return
        emitter_id = event.emitter_id[:MAX_EMITTER_ID]
        transition = live.breaker.request_lease(now, emitter_id)
        if transition is not None:
            self._changes.leases += 1
            self._publish(live.follow(transition, now))
        elif live.breaker.state == "closed" and _knows_more(event, live):
            # Who asks holds a record of a life before this one (a zombie's, past the tombstone): tell what holds now.
            self._publish(live.publish(now, Cause(rule="asked", actor=emitter_id)))

    def _count(self, live: LiveCircuit, event: Execution, now: float, recorded: float | None) -> None:
        row = live.row
        emitter_id = (event.emitter_id or "")[:MAX_EMITTER_ID]
        row.total_calls += 1
        duration_ms = event.execution_time_ms or 0.0
        outcome = result_kind(event.status, event.error_class, live.policy)
        if outcome is ResultKind.FAILURE:
            row.total_failed += 1
            row.last_error = describe_error(event.error_type, event.error_message, event.status)
        elif event.status != "success" or outcome is ResultKind.IGNORED:
            row.total_ignored += 1
        tokens = (event.input_tokens or 0) + (event.output_tokens or 0) + (event.cache_creation_tokens or 0)
        wait_s = event.retry_after_s
        result = Result(
            outcome,
            duration_ms,
            min(tokens, MAX_TOKENS),
            emitter_id,
            None if wait_s is None else min(wait_s, MAX_RETRY_AFTER_S),
        )
        # Of an unguarded call only its end is known: by the broker's clock, and by the caller's if that is earlier.
        # The earlier one is used, so that a call made before the cooldown ended never passes for a probe.
        ended = now if recorded is None or recorded > now else recorded
        probes = _probes(live.breaker)
        transition = live.breaker.record_event(
            now,
            result,
            generation=event.generation,
            lease_id=event.lease_id,
            started_at=ended - duration_ms * _MS,
        )
        if transition is not None:
            self._publish(live.follow(transition, now))
        elif probes is not None and probes != _probes(live.breaker):
            # A probe came back and decided nothing yet: untold, its process would hold a used lease to the end of the stay.
            self._publish(live.publish(now, Cause(rule="probe_returned", actor=emitter_id or None)))

    def _rekey(self, record: LogRecord, tool_name: str, partition: int, offset: int) -> None:
        headers = [(name, value) for name, value in record.headers if name not in {REKEYED, RESENT}]
        if sum(len(name) + len(value or b"") for name, value in headers) > MAX_COPIED_BYTES:
            headers.clear()
        if any(name == RESENT for name, _ in record.headers):
            headers.append((RESENT, b"1"))
        headers.append((REKEYED, b"%d:%d" % (partition, offset)))
        assert record.value is not None
        self._changes.rekeyed.append(Rekeyed(record.topic, tool_name, record.value, headers, record))


def _knows_more(event: Execution, live: LiveCircuit) -> bool:
    return live.row.record is None or (event.generation or 0) > live.breaker.generation


def _probes(breaker: Breaker) -> tuple[tuple[ProbeLease, ...], int] | None:
    """The leases that are out and the permits left; null where the circuit is not half-open."""
    return (breaker.leases, breaker.remaining_probes) if breaker.state == "half_open" else None


def _recorded(event: Execution) -> float | None:
    at = event.recorded_at
    if at is None:
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
