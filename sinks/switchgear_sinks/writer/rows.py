"""Turn records of Kafka into rows of ClickHouse, as lines of JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, Protocol

import msgspec
from pydantic import ValidationError

from switchgear_schemas import headers as header_names
from switchgear_schemas import wire
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.enums import EARLIEST, LATEST, Status
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.execution import MAX_EVENT_BYTES, ToolExecution
from switchgear_schemas.records import LATEST_MS, check_readable, check_time, unreadable
from switchgear_sinks.writer.batches import Record
from switchgear_sinks.writer.clocks import is_brokers, latest_time, stored_time

COMPONENT: Final = "sink"


@dataclass(slots=True)
class Rows:
    """The rows of one batch, and the records that are left out of it.

    ``values``, ``records`` and ``canonical`` have one entry per row. A canonical row was validated in full and encoded by us.
    """

    values: list[bytes] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    canonical: list[bool] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    resent: list[Record] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    wrong_clocks: dict[tuple[str, str], int] = field(default_factory=dict)
    """Events by emitter and by what is wrong with its clock: ``ahead`` or ``no_zone``."""
    named: int = 0
    """How often ClickHouse has named one of these rows as invalid."""

    def add(self, record: Record, value: bytes, *, canonical: bool) -> None:
        """Add a row."""
        self.values.append(value)
        self.records.append(record)
        self.canonical.append(canonical)

    def reject(self, record: Record, error: Exception) -> None:
        """Add a dead letter. ``error`` is an ``InvalidExecutionError``, or one that was not foreseen."""
        self.dead.append(dead_letter(record, error))

    def skip(self, why: str) -> None:
        """Count a record that is left out on purpose."""
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def remove(self, indexes: set[int]) -> None:
        """Remove rows."""
        kept = [index for index in range(len(self.values)) if index not in indexes]
        self.values = [self.values[index] for index in kept]
        self.records = [self.records[index] for index in kept]
        self.canonical = [self.canonical[index] for index in kept]

    def make_canonical(self, index: int, canonical: Callable[[Record], bytes]) -> bool:
        """Validate row ``index`` in full and encode it again. If it is invalid, add a dead letter and return False."""
        try:
            self.values[index] = canonical(self.records[index])
        except Exception as error:  # noqa: BLE001 - one record must not stop the others
            self.reject(self.records[index], error)
            return False
        self.canonical[index] = True
        return True

    def take_dead(self) -> list[DeadLetter]:
        """Return the dead letters since the last call."""
        found, self.dead = self.dead, []
        return found


class RowMaker(Protocol):
    """Turns the records of one topic into rows of one table. The same records always give the same rows."""

    table: str

    def rows(self, records: list[Record]) -> Rows:
        """Return the rows. Most records go through as they are, because that is cheapest."""
        ...

    def canonical(self, record: Record) -> bytes:
        """Validate a record in full and return its row.

        Raises:
            InvalidExecutionError: The record breaks the contract.
        """
        ...


def coordinates(record: Record) -> bytes:
    """Return the opening brace of a row and its Kafka coordinates.

    A topic that keeps its producers' clocks may have impossible timestamps. They are left out: the row gets the time at
    which it arrives in ClickHouse.
    """
    stamp = record.timestamp
    if not is_brokers(stamp):
        return b'{"kafka_partition":%d,"kafka_offset":%d,' % (record.partition, record.offset)
    return b'{"kafka_partition":%d,"kafka_offset":%d,"kafka_timestamp":%d.%03d,' % (
        record.partition,
        record.offset,
        stamp // 1000,
        stamp % 1000,
    )


def dead_letter(record: Record, error: Exception) -> DeadLetter:
    """Return the record as a dead letter of the sink."""
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


_Aware = Annotated[datetime, msgspec.Meta(tz=True)]
_UNKNOWN: Final = "unknown_fields"
_NULL: Final = b"null"
_MOST_EMITTER: Final = 128


class StrictExecution(wire.Execution, gc=False, forbid_unknown_fields=True):
    """An execution that ClickHouse can read as it is: without unknown fields, and with a zone in its time."""

    recorded_at: _Aware | None = None


_strict: Final = msgspec.json.Decoder(StrictExecution).decode
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NOT_STRICT: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ExecutionRows:
    """Makes rows of ``tool_metrics``."""

    table = "tool_metrics"

    def rows(self, records: list[Record]) -> Rows:
        """Return the rows. Skipped are copies that the worker sent to another partition, and reports of overdue calls."""
        found = Rows()
        stamp, latest = -1, LATEST
        for record in records:
            names = {name for name, _ in record.headers} if record.headers else ()
            if header_names.REKEYED in names:
                found.skip("rekeyed")
                continue
            value = record.value
            if record.timestamp != stamp:  # the records of a producer's batch share it
                stamp, latest = record.timestamp, latest_time(record.timestamp)
            event = read_strictly(value, latest) if value is not None and 0 <= stamp < LATEST_MS else None
            if value is not None and event is not None:
                status, row, wrong = event.status, coordinates(record) + value[1:], None
            else:
                try:
                    status, row, wrong = self._canonical(record)
                except Exception as error:  # noqa: BLE001 - one record must not stop the others
                    found.reject(record, error)
                    continue
            if status == "overdue":
                found.skip("overdue")
                continue
            found.add(record, row, canonical=event is None)
            if wrong is not None:
                found.wrong_clocks[wrong] = found.wrong_clocks.get(wrong, 0) + 1
            if header_names.RESENT in names:
                found.resent.append(record)
        return found

    def canonical(self, record: Record) -> bytes:
        """Validate a record in full and return its row. Unknown fields are kept in a column of their own."""
        return self._canonical(record)[1]

    def _canonical(self, record: Record) -> tuple[Status, bytes, tuple[str, str] | None]:
        """Return the status, the row, and if the emitter's clock is wrong, the emitter and what is wrong."""
        check_readable(record)
        check_time(record)
        read = wire.decode_execution(record.value)  # rejects what the worker rejects, for the same reason
        try:
            given = _fields((record.value or b"").decode(errors="replace"))
            known = {
                name: msgspec.json.decode(raw) for name, raw in given.items() if name in ToolExecution.model_fields
            }
        except _NOT_STRICT as error:
            raise InvalidExecutionError("", f"the message is not JSON: {error}") from None
        try:
            event = ToolExecution.model_validate(known)
        except ValidationError as error:
            raise _explain(error) from None
        row, wrong = event.model_dump(mode="json", exclude_unset=True), None
        if read.recorded_at is not None:
            zoned = read.recorded_at.tzinfo is not None
            time = stored_time(event.recorded_at, known["recorded_at"], record.timestamp, zoned=zoned)
            if time.wrong:
                row |= {"recorded_at": time.at, "recorded_as": time.sent_as}
                wrong = (event.emitter_id[:_MOST_EMITTER], time.wrong)
        if "metadata" in row:
            row["metadata"] = bytes(given["metadata"]).decode()
        unknown = {name: raw for name, raw in given.items() if name not in known and bytes(raw) != _NULL}
        if unknown:
            row[_UNKNOWN] = msgspec.json.encode(unknown).decode()
        return read.status, coordinates(record) + msgspec.json.encode(row)[1:], wrong


def read_strictly(value: bytes, latest: datetime) -> StrictExecution | None:
    """Return the execution if its message can be inserted byte for byte, else None. It can't be if its time isn't before ``latest``."""
    if value[:1] != b"{" or len(value) > MAX_EVENT_BYTES:
        return None
    try:
        event = _strict(value)
        if not value.isascii():
            value.decode()  # msgspec does not check the text of fields that it skips
    except _NOT_STRICT:
        return None
    if event.error_class == "cancelled" and event.status != "cancelled":
        return None  # an emitter that does not know the status: the row gets it
    at = event.recorded_at
    return event if at is None or EARLIEST <= at < latest else None


def _explain(error: ValidationError) -> InvalidExecutionError:
    first = error.errors(include_url=False, include_context=False)[0]
    return InvalidExecutionError(".".join(str(part) for part in first["loc"]), first["msg"])


_MOST: Final = {"version": 2**63 - 1, "generation": 2**63 - 1, "attempt": 2**32 - 1}
_NAMES: Final = ("circuit_id", "tool_name")
_TIMES: Final = ("changed_at", "open_until")
_PACED: Final = b'"news":"pace"'
_AS_JSON: Final = ("cause", "leases", "counts", "fallback")


class CircuitRows:
    """Makes rows of ``circuit_transitions``."""

    table = "circuit_transitions"

    def rows(self, records: list[Record]) -> Rows:
        """Return the rows. The tombstone of a deleted circuit is skipped, so its history stays.

        So is a record that tells nothing but the tool's rate limits: a tool that is used up has one each second.
        """
        found = Rows()
        for record in records:
            if record.value is None and unreadable(record) is None:
                found.skip("tombstone")
                continue
            try:
                if _PACED in (record.value or b"") and Circuit.from_bytes(record.value).news == "pace":
                    found.skip("pace")
                    continue
                found.add(record, self.canonical(record), canonical=True)
            except Exception as error:  # noqa: BLE001 - one record must not stop the others
                found.reject(record, error)
        return found

    def canonical(self, record: Record) -> bytes:
        """Validate a record and return its row. Nested parts become JSON text."""
        check_readable(record)
        try:
            circuit = Circuit.from_bytes(record.value)
        except InvalidExecutionError as error:
            raise InvalidExecutionError(error.field, f"not a circuit record: {error.reason}") from None
        _check_range(circuit)
        row = _known(circuit.to_dict())
        if circuit.cause is not None:
            row["cause"] = _known(row["cause"])
        for name in _AS_JSON:
            if name in row:
                row[name] = msgspec.json.encode(row[name]).decode()
        return coordinates(record) + msgspec.json.encode(row)[1:]


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _check_range(circuit: Circuit) -> None:
    """Refuse values that are too large for their column, because ClickHouse would keep only their lower bits."""
    for name in _NAMES:
        if not getattr(circuit, name):
            raise InvalidExecutionError(name, "must not be empty")
    for name, most in _MOST.items():
        value = getattr(circuit, name)
        if not 0 <= value <= most:
            raise InvalidExecutionError(name, f"must lie between 0 and {most}, got {value}")
    for name in _TIMES:
        at = getattr(circuit, name)
        if at is not None and not EARLIEST <= at < LATEST:
            raise InvalidExecutionError(
                name, f"must lie between {EARLIEST.year} and {LATEST.year}, got {at.isoformat()}"
            )
