"""What the fold reads from the log, and what it wants written to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from switchgear.fleet.policy_overrides import PolicyOverrides
from switchgear_schemas import DeadLetter, InvalidExecutionError
from switchgear_schemas.headers import REKEYED


class LogRecord(Protocol):
    """One Kafka record; aiokafka's ``ConsumerRecord`` is one. ``timestamp``: milliseconds since 1970, set by the broker."""

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
    """A record for the circuits topic; without a value it is the tombstone of a circuit that retired."""

    circuit_id: str
    tool_name: str
    state: str
    version: int
    value: bytes | None


class Rekeyed(NamedTuple):
    """A copy of the message ``record`` that was in the wrong partition, for its tool's own one."""

    topic: str
    tool_name: str
    value: bytes
    headers: list[tuple[str, bytes]]
    record: LogRecord


@dataclass(slots=True)
class Changes:
    """What came of the records folded since the last :meth:`FleetFold.take`, in the order in which to write it."""

    rows: dict[bytes, tuple[str, bytes | None]] = field(default_factory=dict)
    """Key of the table to (tool name, new value; null: the row goes). The order matters, see :meth:`FleetFold.take`."""
    standing: dict[int, PolicyOverrides] = field(default_factory=dict)
    """Policies by glob that changed, by partition; :meth:`FleetFold.take` makes rows of them, the last ones."""
    circuits: list[Published] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    rekeyed: list[Rekeyed] = field(default_factory=list)
    folded: int = 0
    """Executions that changed a row."""
    commands: int = 0
    duplicates: int = 0
    """Replays that the fence stopped."""
    late: int = 0
    retired: int = 0
    """Idle circuits that made room."""
    leases: int = 0
    """Probe leases granted."""

    def follow(self, later: Changes) -> None:
        """Put ``later`` behind these, as if both had been taken at once: of each row the later value, in its later place."""
        for key, row in later.rows.items():
            self.rows.pop(key, None)
            self.rows[key] = row
        self.standing |= later.standing
        self.circuits += later.circuits
        self.dead += later.dead
        self.rekeyed += later.rekeyed
        for name in ("folded", "commands", "duplicates", "late", "retired", "leases"):
            setattr(self, name, getattr(self, name) + getattr(later, name))


COMPONENT: Final = "worker"
_NUMBER: Final = re.compile(rb"[0-9]{1,18}").fullmatch
"""An offset that fits 64 bits."""


def origin_of(record: LogRecord, partitions: int) -> tuple[int, int]:
    """Partition and offset of the original, one of ``partitions``: a row keeps a number for each that it has seen.

    Raises:
        InvalidExecutionError: the header that names them is not ``partition:offset``, or there is no such partition.
    """
    for name, value in record.headers:
        if name == REKEYED:
            place = value or b""  # Kafka lets a header have none
            partition, colon, offset = place.partition(b":")
            if not (colon and _NUMBER(partition) and _NUMBER(offset) and int(partition) < partitions):
                raise InvalidExecutionError("", f"the header {REKEYED} must be partition:offset, got {place[:40]!r}")
            return int(partition), int(offset)
    return record.partition, record.offset


def dead_letter(record: LogRecord, field: str, reason: str) -> DeadLetter:
    """A message that can't be folded, with its reason; it fits the topic of the dead letters."""
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
    ).fitted()
