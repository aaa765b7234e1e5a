"""The evidence of a run as plain data: the topics, the worker's table, ClickHouse and the ledgers. The promises are checked against it.

No code of the product decodes it, only aiokafka, ``json``, ``msgpack`` and SQL. A row of the changelog has one byte for its schema, eight
bytes for a counter that rises with every event, and a msgpack array with the fields of ``switchgear.fleet.rows.Row``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.ledger import Ledger
from tests.chaos.servers import is_of_server

GARBAGE = "chaos.garbage"
"""Header of the records that faults write to other topics than executions. No reader can use them."""
Place = tuple[int, int]
"""Partition and offset in the executions topic."""


@dataclass(slots=True)
class Event:
    """One record of the executions topic."""

    place: Place
    timestamp_s: float
    """The broker's time."""
    key: str
    """The load's name of the event; empty if it has none."""
    metric_id: str
    tool: str
    """Empty if the record isn't an execution."""
    status: str
    error_class: str | None
    recorded_s: float | None
    emitter_id: str
    generation: int | None
    lease_id: str | None
    resent: bool
    origin: Place | None
    """The place of the original, for a copy that the worker sent to the tool's own partition."""
    server_generation: int | None = None
    """Of the circuit of the tool's server, like the lease."""
    server_lease_id: str | None = None

    def under(self, circuit: str) -> tuple[int | None, str | None]:
        """Return the generation and the lease that the call had from its tool's circuit, or from that of the tool's server."""
        if is_of_server(circuit):
            return self.server_generation, self.server_lease_id
        return self.generation, self.lease_id


@dataclass(slots=True)
class CircuitRecord:
    """One record of the circuits topic."""

    circuit: str
    version: int
    generation: int
    state: str
    rule: str
    timestamp_s: float
    """When it was published, by the broker's clock."""
    changed_s: float
    """When the state changed: the broker's time of the event that changed it. A worker with a backlog publishes later."""
    leases: tuple[tuple[str, str], ...]
    """Lease ids, each with the emitter that holds it."""
    content: bytes
    partition: int = 0
    previous: str | None = None
    """The state before."""
    tools: int | None = None
    """Tools among the failures, for the circuit of a server."""


@dataclass(slots=True)
class Row:
    """The newest row of a circuit in the worker's table."""

    circuit: str
    calls: int
    failed: int
    ignored: int
    late: int
    rejected: int
    version: int


@dataclass(slots=True)
class Stored:
    """A row of ``tool_metrics``."""

    key: str
    metric_id: str
    place: Place


@dataclass
class Evidence:
    """Everything that a run leaves behind."""

    ledgers: list[Ledger] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    circuits: list[CircuitRecord] = field(default_factory=list)
    """In the order of the log, partition by partition."""
    rows: dict[str, Row] = field(default_factory=dict)
    dead: set[Place] = field(default_factory=set)
    """Origins of the dead letters."""
    garbage: set[tuple[str, int, int]] = field(default_factory=set)
    """Topic, partition and offset of the garbage in circuits and commands."""
    buried: set[tuple[str, int, int]] = field(default_factory=set)
    """Origins of the dead letters from other topics than executions."""
    stored: list[Stored] = field(default_factory=list)
    transitions: list[tuple[str, int, str]] = field(default_factory=list)
    """Circuit, version and state of every row of ``circuit_transitions``."""
    rollups_differ: Mapping[str, int] = field(default_factory=dict)
    pauses: list[tuple[str, float, float]] = field(default_factory=list)
    """Processes that were stopped by SIGSTOP, with start and end."""
    late_after_s: float = 300.0
    partitions: int = 6
    permitted: Mapping[str, int] = field(default_factory=dict)
    """The probes that the policy of each guarded tool and server permits, by circuit."""
    details: dict[str, Any] = field(default_factory=dict)
