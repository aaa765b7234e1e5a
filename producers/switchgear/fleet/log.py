"""What the fold reads from the log, and what it wants written to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from switchgear.fleet.standing import Standing
from switchgear_schemas import DeadLetter


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
    standing: dict[int, Standing] = field(default_factory=dict)
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
