"""What the run left behind, as plain data: the topics, the worker's table, ClickHouse, the ledgers. The promises are judged by it.

Nothing of ours decodes or folds here: aiokafka, ``json``, ``msgpack`` and SQL. A row of the changelog is one byte of schema, eight bytes
of a counter that rises with every event, then a msgpack array whose places are those of ``switchgear.fleet.rows.Row``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.ledger import Ledger

GARBAGE = "chaos.garbage"
"""Header of what the faults put into the topics of the state and of the operators: no reader can use it."""
Place = tuple[int, int]
"""Partition and offset in the executions topic."""


@dataclass(slots=True)
class Event:
    """One record of the executions topic."""

    place: Place
    timestamp_s: float
    """The broker's."""
    key: str
    """The load's name for it; empty where it is of none."""
    metric_id: str
    tool: str
    """Empty where the record is no execution."""
    status: str
    error_class: str | None
    recorded_s: float | None
    emitter_id: str
    generation: int | None
    lease_id: str | None
    resent: bool
    origin: Place | None
    """Of a copy that the worker sent to the tool's own partition: where the original is."""


@dataclass(slots=True)
class CircuitRecord:
    """One record of the circuits topic."""

    circuit: str
    version: int
    generation: int
    state: str
    rule: str
    timestamp_s: float
    """When it was published, by the broker."""
    changed_s: float
    """When the state changed: the broker's time of the event that changed it. A worker that works off a backlog publishes later."""
    leases: tuple[tuple[str, str], ...]
    """Lease id and the emitter that holds it."""
    content: bytes
    partition: int = 0


@dataclass(slots=True)
class Row:
    """The worker's newest row of a circuit."""

    circuit: str
    calls: int
    failed: int
    ignored: int
    late: int
    rejected: int
    version: int


@dataclass(slots=True)
class Stored:
    """One row of ``tool_metrics``."""

    key: str
    metric_id: str
    place: Place


@dataclass
class Evidence:
    """All of it."""

    ledgers: list[Ledger] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    circuits: list[CircuitRecord] = field(default_factory=list)
    """In the order of the log, partition by partition."""
    rows: dict[str, Row] = field(default_factory=dict)
    dead: set[Place] = field(default_factory=set)
    """Origins of the dead letters."""
    garbage: set[tuple[str, int, int]] = field(default_factory=set)
    """Topic, partition and offset of the records in circuits and commands that no reader can use."""
    buried: set[tuple[str, int, int]] = field(default_factory=set)
    """Origins of the dead letters from other topics than executions."""
    stored: list[Stored] = field(default_factory=list)
    transitions: list[tuple[str, int, str]] = field(default_factory=list)
    """Circuit, version and state of every row of ``circuit_transitions``."""
    rollups_differ: Mapping[str, int] = field(default_factory=dict)
    pauses: list[tuple[str, float, float]] = field(default_factory=list)
    """Process, and when it was stopped by SIGSTOP."""
    late_after_s: float = 300.0
    partitions: int = 6
    permitted: Mapping[str, int] = field(default_factory=dict)
    """Probes that a guarded tool's policy permits."""
    details: dict[str, Any] = field(default_factory=dict)
