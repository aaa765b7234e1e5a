"""Executions into rows of ``tool_metrics``.

Nearly every message goes through byte for byte, the Kafka coordinates spliced in. It is decoded first all the same
(about 1.1 µs of 7 to 10 that ClickHouse spends on the row, measured): the sink must not store what the worker rejects, nor hand
ClickHouse a message that would end its row early or hold two. Whatever the strict decoder does not know is checked in
full and written anew, one message at a time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec
from pydantic import ValidationError

from switchgear_schemas import headers as header_names
from switchgear_schemas import wire
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.execution import EARLIEST, LATEST, MAX_EVENT_BYTES, ToolExecution
from switchgear_schemas.records import LATEST_MS, check_readable, check_time
from switchgear_sinks.writer.batch import Record
from switchgear_sinks.writer.rows import Rows, coordinates

_Aware = Annotated[datetime, msgspec.Meta(tz=True)]
_UNKNOWN: Final = "unknown_fields"
_NULL: Final = b"null"


class StrictExecution(wire.Execution, frozen=True, gc=False, forbid_unknown_fields=True):
    """An execution in the form that ClickHouse reads as it is: no unknown fields, and a time with its offset."""

    recorded_at: _Aware | None = None


_strict: Final = msgspec.json.Decoder(StrictExecution).decode
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NOT_STRICT: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ExecutionRows:
    """Rows of ``tool_metrics``."""

    table = "tool_metrics"

    def rows(self, records: list[Record]) -> Rows:
        """Originals only: a copy that the worker sent to another partition is skipped."""
        found = Rows()
        for record in records:
            names = {name for name, _ in record.headers} if record.headers else ()
            if header_names.REKEYED in names:
                found.skip("rekeyed")
                continue
            value = record.value
            if value is not None and 0 <= record.timestamp < LATEST_MS and passes(value):
                found.add(record, coordinates(record) + value[1:], canonical=False)
            else:
                try:
                    found.add(record, self.canonical(record), canonical=True)
                except Exception as error:  # noqa: BLE001 - one record must not stop the others
                    found.reject(record, error)
                    continue
            if header_names.RESENT in names:
                found.resent.append(record)
        return found

    def canonical(self, record: Record) -> bytes:
        """One row, parsed, checked in full and written anew; unknown fields kept as they are in a column of their own."""
        check_readable(record)
        check_time(record)
        wire.decode_execution(record.value)  # what the worker rejects, for the same reason
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
        row = event.model_dump(mode="json", exclude_unset=True)
        if "metadata" in row:
            row["metadata"] = bytes(given["metadata"]).decode()
        unknown = {name: raw for name, raw in given.items() if name not in known and bytes(raw) != _NULL}
        if unknown:
            row[_UNKNOWN] = msgspec.json.encode(unknown).decode()
        return coordinates(record) + msgspec.json.encode(row)[1:]


def passes(value: bytes) -> bool:
    """The message can go through byte for byte."""
    if value[:1] != b"{" or len(value) > MAX_EVENT_BYTES:
        return False
    try:
        event = _strict(value)
        if not value.isascii():
            value.decode()  # of a field that is skipped, msgspec does not check it
    except _NOT_STRICT:
        return False
    if event.error_class == "cancelled" and event.status != "cancelled":
        return False  # of an emitter that does not know the status: the row is written with it
    at = event.recorded_at
    return at is None or EARLIEST <= at < LATEST


def _explain(error: ValidationError) -> InvalidExecutionError:
    first = error.errors(include_url=False, include_context=False)[0]
    return InvalidExecutionError(".".join(str(part) for part in first["loc"]), first["msg"])
