"""Taking over: what a new owner does with the circuits topic before it folds on.

Rows are written before the records that come of them, so a crash can lose a record but never leave one without its row. The
new owner finds the highest version published of each circuit, makes up what was lost, byte for byte, and continues above.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from switchgear.breaker.snapshot import Count
from switchgear.fleet.circuit import LiveCircuit
from switchgear.fleet.log import Changes, Published
from switchgear.fleet.policy_overrides import is_circuit
from switchgear.fleet.registry import CircuitRegistry
from switchgear.fleet.rows import MAX_ID_LENGTH, Row, is_circuit_of
from switchgear_schemas import Cause, CircuitState, Scope
from switchgear_schemas.enums import LATEST, MAX_NAME_LENGTH

log: Final = logging.getLogger("switchgear.fleet")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PublishedCircuit(msgspec.Struct, frozen=True):
    """What is needed of a record of the circuits topic."""

    circuit_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]
    tool_name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    state: CircuitState
    version: Count
    generation: Count
    changed_at: datetime
    scope: Scope = "tool"

    @property
    def key(self) -> bytes:
        """Key of its record."""
        return self.circuit_id.encode()


@dataclass(frozen=True, slots=True)
class Known:
    """What a new owner reads before it folds on."""

    published: Mapping[str, PublishedCircuit]
    """Highest version of each circuit in the partitions taken over."""
    execution_ends: Mapping[int, int] = field(default_factory=dict)
    """Next offset of each partition of the executions topic."""
    command_ends: Mapping[int, int] = field(default_factory=dict)
    """Next offset of each partition of the commands topic."""


_decoder: Final = msgspec.json.Decoder(PublishedCircuit)
_LOST: Final = Cause(rule="state_lost", reason="the owner has no state of this circuit; its evidence starts anew")


def read_published(value: bytes | None) -> PublishedCircuit | None:
    """Decode one record; null for a tombstone and for what is not a record of ours."""
    if not value:
        return None
    try:
        found = _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    at = found.changed_at
    named = is_circuit_of(found.circuit_id, found.tool_name, found.scope)
    return found if named and at.tzinfo is not None and _EPOCH <= at < LATEST else None


def reconcile(
    shelf: CircuitRegistry,
    known: Known,
    changes: Changes,
    touch: Callable[[LiveCircuit], None],
) -> dict[str, str]:
    """Compare every row with what was published last and queue the records that are missing.

    Args:
        shelf: the rows after recovery.
        known: what Kafka holds.
        changes: gets the records.
        touch: notes a circuit whose row changed.

    Returns:
        State by circuit id, of those that are not closed.
    """
    states: dict[str, str] = {}
    for data in [data for key, data in shelf.rows.items() if is_circuit(key)]:
        try:
            live = shelf.load(data)
        except Exception:
            log.exception("a row of the changelog can't be used; its circuit starts fresh")
            _anew(shelf, Row.decode(data), known, changes, touch)
            continue
        row = live.row
        last = known.published.get(row.circuit_id)
        if _lower_fences(row.fences, known.execution_ends) | _lower_fences(row.command_fences, known.command_ends):
            row.applied += 1
            touch(live)
        if last is not None and last.version > row.version:
            # Published above the row: by a zombie, or the changelog was lost. Readers must see something higher, and a generation of its
            # own: probes that the other one permitted must not pass for ours, nor a state follow under a number that readers have seen.
            row.version = last.version
            live.breaker.generation = max(live.breaker.generation, last.generation) + 1
            _announce(live, changes, touch)
        elif row.record is not None and (last is None or last.version < row.version):
            changes.circuits.append(Published(row.circuit_id, row.tool_name, row.state, row.version, row.record))
        if live.differs_from_record():
            _announce(live, changes, touch)
        if live.breaker.state != "closed":
            states[row.circuit_id] = live.breaker.state
    for last in known.published.values():
        if last.circuit_id.encode() not in shelf.rows:
            _without_row(shelf, last, changes, touch)
    return states


def _anew(
    shelf: CircuitRegistry, row: Row, known: Known, changes: Changes, touch: Callable[[LiveCircuit], None]
) -> None:
    """A row that decodes and that no breaker wakes from: its fences and its name hold, its evidence is lost."""
    last = known.published.get(row.circuit_id)
    live = shelf.adopt(row.circuit_id, row.tool_name, row.scope, row.clock)
    live.row.fences, live.row.command_fences = row.fences, row.command_fences
    live.row.applied = row.applied + 1
    live.row.version = max(row.version, 0 if last is None else last.version)
    live.breaker.generation = 0 if last is None else last.generation + 1
    changes.circuits.append(live.publish(live.row.clock, _LOST))
    touch(live)


def _lower_fences(fences: dict[int, int], ends: Mapping[int, int]) -> bool:
    """Drop the fence of a partition that ends at or below it: the topic was deleted and made anew, its offsets start over."""
    gone = [partition for partition, offset in fences.items() if offset >= ends.get(partition, offset + 1)]
    for partition in gone:
        del fences[partition]
    return bool(gone)


def _announce(live: LiveCircuit, changes: Changes, touch: Callable[[LiveCircuit], None]) -> None:
    changes.circuits.append(live.publish(live.row.clock))
    touch(live)


def _without_row(
    shelf: CircuitRegistry, last: PublishedCircuit, changes: Changes, touch: Callable[[LiveCircuit], None]
) -> None:
    if last.state != "closed" or last.scope == "tool":
        _adopt(shelf, last, changes, touch)
    else:  # it retired, and its tombstone was lost in a crash
        changes.circuits.append(Published(last.circuit_id, last.tool_name, "closed", last.version, None))


def _adopt(
    shelf: CircuitRegistry, last: PublishedCircuit, changes: Changes, touch: Callable[[LiveCircuit], None]
) -> None:
    """A published circuit of which no row is left (a lost changelog).

    Close it, or readers refuse for ever; and go on above its version, or they drop what it says next. A tool that was published never
    retires, so its row was lost even where it is closed.
    """
    live = shelf.adopt(last.circuit_id, last.tool_name, last.scope, last.changed_at.timestamp())
    live.row.version = last.version
    live.breaker.generation = last.generation + (last.state != "closed")
    changes.circuits.append(live.publish(live.row.clock, _LOST))
    touch(live)
