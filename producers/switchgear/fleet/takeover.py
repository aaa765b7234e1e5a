"""What a new owner does with the circuits topic before it folds on.

Rows are written before the records that result from them. A crash can lose a record, but never leaves one without its row. The new
owner finds the highest version published of each circuit, publishes what was lost, byte for byte, and continues above it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from switchgear.breaker.values import Count
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.log import Published
from switchgear.fleet.registry import SPLIT, CircuitRegistry
from switchgear.fleet.rows import MAX_ID_LENGTH, Row, is_circuit, is_circuit_of
from switchgear_schemas import Cause, CircuitScope, CircuitState
from switchgear_schemas.enums import LATEST, MAX_NAME_LENGTH

log: Final = logging.getLogger("switchgear.fleet")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PublishedCircuit(msgspec.Struct, frozen=True):
    """The fields that a new owner needs of a record of the circuits topic."""

    circuit_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]
    tool_name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    state: CircuitState
    version: Count
    generation: Count
    changed_at: datetime
    scope: CircuitScope = "tool"

    @property
    def key(self) -> bytes:
        """Key of the record."""
        return self.circuit_id.encode()


@dataclass(frozen=True, slots=True)
class Known:
    """What a new owner reads from Kafka before it folds on."""

    published: Mapping[str, PublishedCircuit]
    """Highest version of each circuit of the assigned partitions."""
    execution_ends: Mapping[int, int] = field(default_factory=dict)
    """Next offset of each partition of the executions topic."""
    command_ends: Mapping[int, int] = field(default_factory=dict)
    """Next offset of each partition of the commands topic."""


_decoder: Final = msgspec.json.Decoder(PublishedCircuit)
_LOST: Final = Cause(rule="state_lost", reason="the owner has no state of this circuit; its evidence starts empty")


def read_published(value: bytes | None) -> PublishedCircuit | None:
    """Decode one record of the circuits topic. Return None for a tombstone and for what a worker does not write."""
    if not value:
        return None
    try:
        found = _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    at = found.changed_at
    named = is_circuit_of(found.circuit_id, found.tool_name, found.scope)
    return found if named and at.tzinfo is not None and _EPOCH <= at < LATEST else None


def reconcile(registry: CircuitRegistry, known: Known) -> dict[str, str]:
    """Compare every row with its last published record, and publish what is missing.

    Args:
        registry: The circuits, after their rows were restored.
        known: What Kafka holds.

    Returns:
        State by circuit id, of the circuits that are not closed.
    """
    states: dict[str, str] = {}
    for data in [data for key, data in registry.rows.items() if is_circuit(key)]:
        try:
            live = registry.load(data)
        except Exception:
            log.exception("a row of the changelog can't be used; its circuit starts fresh")
            _start_fresh(registry, Row.decode(data), known)
            continue
        _reconcile(registry, live, known)
        if live.breaker.state != "closed":
            states[live.row.circuit_id] = live.breaker.state
    for _, last in sorted(known.published.items()):
        if last.key not in registry.rows:
            _without_row(registry, last)
    return states


def _reconcile(registry: CircuitRegistry, live: LiveCircuit, known: Known) -> None:
    row = live.row
    last = known.published.get(row.circuit_id)
    if _lower_fences(row.fences, known.execution_ends) | _lower_fences(row.command_fences, known.command_ends):
        row.applied += 1
        registry.touch(live)
    if last is not None and last.version > row.version:
        # A paused former owner published above the row, or the changelog was lost. Readers need a higher version. They also need a new
        # generation, so that probes which the other owner permitted don't count here, and no state repeats a number they have seen.
        row.version = last.version
        live.breaker.generation = max(live.breaker.generation, last.generation) + 1
        _announce(registry, live)
    elif row.record is not None and (last is None or last.version < row.version):
        registry.add_record(Published(row.circuit_id, row.tool_name, row.state, row.version, row.record))
    if live.differs_from_record():
        _announce(registry, live)


def _start_fresh(registry: CircuitRegistry, row: Row, known: Known) -> None:
    """Replace a row that decodes but whose breaker can't be restored. Its fences and its name hold, its evidence is lost."""
    last = known.published.get(row.circuit_id)
    live = registry.adopt(row.circuit_id, row.tool_name, row.scope, row.clock)
    live.row.fences, live.row.command_fences = row.fences, row.command_fences
    live.row.applied = row.applied + 1
    live.row.version = max(row.version, 0 if last is None else last.version)
    live.breaker.generation = 0 if last is None else last.generation + 1
    _announce(registry, live, _LOST)


def _lower_fences(fences: dict[int, int], ends: Mapping[int, int]) -> bool:
    """Drop the fence of a partition that ends at or below it: the topic was deleted and created again, so offsets start over."""
    gone = [partition for partition, offset in fences.items() if offset >= ends.get(partition, offset + 1)]
    for partition in gone:
        del fences[partition]
    return bool(gone)


def _announce(registry: CircuitRegistry, live: LiveCircuit, cause: Cause | None = None) -> None:
    registry.add_record(live.next_record(live.row.clock, cause))
    registry.touch(live)


def _without_row(registry: CircuitRegistry, last: PublishedCircuit) -> None:
    """Handle a published circuit without a row.

    A closed circuit of a user or session retired, and a crash lost its tombstone. Any other row was lost with the changelog: a
    published tool or family never retires. Close that circuit, or readers refuse indefinitely, and continue above its version, or readers drop
    the next record.
    """
    if last.state == "closed" and last.scope in SPLIT:
        registry.add_record(Published(last.circuit_id, last.tool_name, "closed", last.version, None))
        return
    live = registry.adopt(last.circuit_id, last.tool_name, last.scope, last.changed_at.timestamp())
    live.row.version = last.version
    live.breaker.generation = last.generation + (last.state != "closed")
    _announce(registry, live, _LOST)
