"""Records of the circuits topic into rows of ``circuit_transitions``: few, so each is checked in full."""

from __future__ import annotations

from typing import Final

import msgspec
from pydantic import ValidationError

from switchgear_schemas.circuit import Circuit
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.records import check_readable, unreadable
from switchgear_schemas.words import EARLIEST, LATEST
from switchgear_sinks.writer.batch import Record
from switchgear_sinks.writer.rows import Rows, coordinates

_MOST: Final = {"version": 2**63 - 1, "generation": 2**63 - 1, "attempt": 2**32 - 1}
_NAMES: Final = ("circuit_id", "tool_name")
_TIMES: Final = ("changed_at", "open_until")
_AS_JSON: Final = ("cause", "leases", "counts", "fallback")


class CircuitRows:
    """Rows of ``circuit_transitions``."""

    table = "circuit_transitions"

    def rows(self, records: list[Record]) -> Rows:
        """Tombstones (a circuit that was deleted) are skipped: history stays."""
        found = Rows()
        for record in records:
            if record.value is None and unreadable(record) is None:
                found.skip("tombstone")
                continue
            try:
                found.add(record, self.canonical(record), canonical=True)
            except Exception as error:  # noqa: BLE001 - one record must not stop the others
                found.reject(record, error)
        return found

    def canonical(self, record: Record) -> bytes:
        """One row; nested parts as JSON text."""
        check_readable(record)
        try:
            circuit = Circuit.model_validate_json(record.value or b"")
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            raise InvalidExecutionError(
                ".".join(str(part) for part in first["loc"]), f"not a circuit record: {first['msg']}"
            ) from None
        _check_range(circuit)
        row = circuit.model_dump(mode="json", exclude_none=True)
        for name in _AS_JSON:
            if name in row:
                row[name] = msgspec.json.encode(row[name]).decode()
        return coordinates(record) + msgspec.json.encode(row)[1:]


def _check_range(circuit: Circuit) -> None:
    """Refuse what the table does not hold: of a value that is beyond its column ClickHouse keeps the lower bits."""
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
