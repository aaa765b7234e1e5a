"""The records that the fold reads from the log, and the changes that it returns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from switchgear.breaker import Result, ResultKind, result_kind
from switchgear.breaker.values import FROM_SERVER
from switchgear.pacing.limit import Observed
from switchgear_schemas import BreakerPolicy, DeadLetter, InvalidExecutionError
from switchgear_schemas.enums import MOST_TOKENS
from switchgear_schemas.headers import REKEYED, RESENT
from switchgear_schemas.wire import Execution


class LogRecord(Protocol):
    """One Kafka record, such as aiokafka's ``ConsumerRecord``. The broker sets ``timestamp``, milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Sequence[tuple[str, bytes]]


@dataclass(slots=True)
class Message:
    """A :class:`LogRecord` without a broker, for replays, simulations and tests."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class Published(NamedTuple):
    """A record for the circuits topic. Without a value it is the tombstone of a retired circuit."""

    circuit_id: str
    tool_name: str
    state: str
    version: int
    value: bytes | None
    only_pace: bool = False
    """Nothing but the tool's rate limits changed."""


class Rekeyed(NamedTuple):
    """A copy of ``record``, which was in the wrong partition, for the partition of its tool."""

    topic: str
    tool_name: str
    value: bytes
    headers: list[tuple[str, bytes]]
    record: LogRecord


@dataclass(slots=True)
class Changes:
    """The result of the records folded since the last :meth:`FleetFold.take`, in the order in which to write it."""

    rows: dict[bytes, tuple[str, bytes | None]] = field(default_factory=dict)
    """Key of the table to tool name and new value. None deletes the row. :meth:`FleetFold.take` explains the order."""
    circuits: list[Published] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    rekeyed: list[Rekeyed] = field(default_factory=list)
    folded: int = 0
    """Executions that changed a row."""
    commands: int = 0
    duplicates: int = 0
    """Replays, which a fence stopped."""
    late: int = 0
    retired: int = 0
    """Idle circuits that made room."""
    leases: int = 0
    """Probe leases granted."""

    def follow(self, later: Changes) -> None:
        """Append ``later``, as if both had been taken at once. Of each row the later value stays, in its later place."""
        for key, row in later.rows.items():
            self.rows.pop(key, None)
            self.rows[key] = row
        self.circuits += later.circuits
        self.dead += later.dead
        self.rekeyed += later.rekeyed
        for name in ("folded", "commands", "duplicates", "late", "retired", "leases"):
            setattr(self, name, getattr(self, name) + getattr(later, name))


COMPONENT: Final = "worker"
COPY_MISPLACED: Final = (
    "it is a copy for a worker with another family_pattern or topic_partitions; retry it to count the call"
)
_NUMBER: Final = re.compile(rb"[0-9]{1,18}").fullmatch
"""An offset that fits 64 bits."""


def origin_of(record: LogRecord, partitions: int) -> tuple[int, int]:
    """Return partition and offset of the original of a copy, or those of ``record`` itself.

    Raises:
        InvalidExecutionError: The header is not ``partition:offset``, or names none of the ``partitions``.
    """
    for name, value in record.headers:
        if name == REKEYED:
            place = value or b""  # Kafka lets a header have no value
            partition, colon, offset = place.partition(b":")
            if not (colon and _NUMBER(partition) and _NUMBER(offset) and int(partition) < partitions):
                raise InvalidExecutionError("", f"the header {REKEYED} must be partition:offset, got {place[:40]!r}")
            return int(partition), int(offset)
    return record.partition, record.offset


def rekeyed(record: LogRecord, tool_name: str) -> Rekeyed:
    """Return a copy of ``record`` for the partition of its tool. Of its headers only the worker's own stay.

    Raises:
        InvalidExecutionError: The record is a copy already. The fence of its original would drop it if a later one came first.
    """
    names = {name for name, _ in record.headers}
    if REKEYED in names:
        raise InvalidExecutionError("", COPY_MISPLACED)
    headers = [(REKEYED, b"%d:%d" % (record.partition, record.offset))]
    if RESENT in names:
        headers.append((RESENT, b"1"))
    assert record.value is not None
    return Rekeyed(record.topic, tool_name, record.value, headers, record)


def dead_letter(record: LogRecord, field: str, reason: str) -> DeadLetter:
    """Return a dead letter that fits its topic. ``field`` is the wrong field, or an empty string for the whole message."""
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        reason=reason,
        component=COMPONENT,
        field=field,
        original_key=record.key,
        value=record.value,
    ).truncate()


MAX_TOKENS: Final = 3 * MOST_TOKENS
"""Tokens of one call. A stored call of a release without bounds may have more, and replays read those."""
MAX_RETRY_AFTER_S: Final = 86_400.0
MAX_EMITTER_ID: Final = 128
"""Characters that a row keeps of ``emitter_id``. With a thousand leases the circuit's record still fits its topic."""


MOST_ASKED: Final = 1_000_000
"""Calls that one event says were asked for or refused, and milliseconds that a call waited."""


def result_of(event: Execution, policy: BreakerPolicy, kind: ResultKind | None = None) -> Result:
    """Return the result of a call as a breaker counts it, with numbers that fit a snapshot. ``kind`` replaces that of a tool's policy.

    A tool whose limits are kept is not broken when it refuses a call as too many: the limit is learned from it.
    """
    if kind is None and event.error_class == "rate_limited" and policy.pace == "enforce":
        kind = ResultKind.IGNORED
    tokens = (event.input_tokens or 0) + (event.output_tokens or 0) + (event.cache_creation_tokens or 0)
    wait_s = event.retry_after_s
    return Result(
        kind=result_kind(event.status, event.error_class, policy) if kind is None else kind,
        duration_ms=event.execution_time_ms or 0.0,
        tokens=min(tokens, MAX_TOKENS),
        reporter=event.counted_reporter[:MAX_EMITTER_ID],
        retry_after_s=None if wait_s is None else min(wait_s, MAX_RETRY_AFTER_S),
        tool=event.tool_name,
        weak=event.evidence == "status_only",
        credential=(event.credential or "") if event.error_class == "auth" and event.status == "error" else "",
        overdue_ms=event.overdue_ms,
    )


def observed(event: Execution) -> Observed | None:
    """Return what an event says about the pace of its tool. None if it says nothing."""
    status, said = event.status, event.metadata or {}
    if status == "overdue":
        return None  # its end will tell
    made = status != "rejected"
    if not made and said.get("refused_by") != "pace":
        return None  # a circuit refused it
    return Observed(
        asked=_number(said.get("asked"), int(made)),
        made=made,
        limited=made and event.error_class == "rate_limited",
        answered=status == "success" or event.error_class in FROM_SERVER,
        wait_s=event.retry_after_s,
        duration_s=(event.execution_time_ms or 0.0) / 1000,
        refused=0 if made else _number(said.get("refused"), 1),
        waited_ms=_number(said.get("waited_ms"), 0) if made else 0,
        credential=event.credential or "",
        process=event.emitter_id or "",
    )


def _number(said: object, otherwise: int) -> int:
    """Return a count that an event's metadata say. Anybody may write there."""
    return min(said, MOST_ASKED) if type(said) is int and said >= 0 else otherwise
