"""Rows: what an insert is made of, whatever the topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_sinks.writer.batch import Record

COMPONENT: Final = "sink"
_EARLIEST_MS: Final = 946_684_800_000  # 2000-01-01
_LATEST_MS: Final = 4_102_444_800_000  # 2100-01-01


@dataclass(slots=True)
class Rows:
    """Rows of one batch with the records they came from, in step; and what is left out of the batch."""

    values: list[bytes] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    canonical: list[bool] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    resent: list[Record] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    named: int = 0
    """How often ClickHouse has named one of these rows as bad."""

    def add(self, record: Record, value: bytes, *, canonical: bool) -> None:
        """One more row."""
        self.values.append(value)
        self.records.append(record)
        self.canonical.append(canonical)

    def reject(self, record: Record, error: Exception) -> None:
        """One more dead letter; ``error`` is an ``InvalidExecutionError``, or what nobody foresaw."""
        self.dead.append(dead_letter(record, error))

    def skip(self, why: str) -> None:
        """One more record that is not stored on purpose."""
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def remove(self, indexes: set[int]) -> None:
        """Take rows out."""
        kept = [index for index in range(len(self.values)) if index not in indexes]
        self.values = [self.values[index] for index in kept]
        self.records = [self.records[index] for index in kept]
        self.canonical = [self.canonical[index] for index in kept]

    def make_canonical(self, index: int, canonical: Callable[[Record], bytes]) -> bool:
        """Write row ``index`` anew in the form that ClickHouse surely reads; False where it is not valid after all."""
        try:
            self.values[index] = canonical(self.records[index])
        except Exception as error:  # noqa: BLE001 - one record must not stop the others
            self.reject(self.records[index], error)
            return False
        self.canonical[index] = True
        return True

    def take_dead(self) -> list[DeadLetter]:
        """The dead letters since the last call."""
        found, self.dead = self.dead, []
        return found


class RowMaker(Protocol):
    """Turns the records of one topic into rows of one table. The same records always give the same rows."""

    table: str

    def rows(self, records: list[Record]) -> Rows:
        """Rows as cheaply as may be: most go through as they are."""
        ...

    def canonical(self, record: Record) -> bytes:
        """One row, parsed, checked in full and written anew.

        Raises:
            InvalidExecutionError: it breaks the contract.
        """
        ...


def coordinates(record: Record) -> bytes:
    """The opening brace of a row and the Kafka coordinates in it.

    A timestamp that cannot be one (a topic that keeps its producers' clocks) is left out: the row gets the time it arrives.
    """
    stamp = record.timestamp
    if not _EARLIEST_MS <= stamp < _LATEST_MS:
        return b'{"kafka_partition":%d,"kafka_offset":%d,' % (record.partition, record.offset)
    return b'{"kafka_partition":%d,"kafka_offset":%d,"kafka_timestamp":%d.%03d,' % (
        record.partition,
        record.offset,
        stamp // 1000,
        stamp % 1000,
    )


def dead_letter(record: Record, error: Exception) -> DeadLetter:
    """The record as a dead letter of the sink."""
    if not isinstance(error, InvalidExecutionError):
        error = InvalidExecutionError("", f"the sink can't make a row of it: {type(error).__name__}: {error}")
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        reason=error.reason,
        component=COMPONENT,
        field=error.field,
        original_key=record.key,
        value=record.value,
    )
