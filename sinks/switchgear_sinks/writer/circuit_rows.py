"""Records of the circuits topic into rows of ``circuit_transitions``: few, so each is checked in full."""

from __future__ import annotations

from typing import Final

import msgspec
from pydantic import ValidationError

from switchgear_schemas.circuit import Circuit
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_sinks.writer.batch import Record
from switchgear_sinks.writer.rows import Rows, coordinates

_AS_JSON: Final = ("cause", "leases", "counts", "fallback")


class CircuitRows:
    """Rows of ``circuit_transitions``."""

    table = "circuit_transitions"

    def rows(self, records: list[Record]) -> Rows:
        """Tombstones (a circuit that was deleted) are skipped: history stays."""
        found = Rows()
        for record in records:
            if not record.value:
                found.skip("tombstone")
                continue
            try:
                found.add(record, self.canonical(record), canonical=True)
            except InvalidExecutionError as error:
                found.reject(record, error)
        return found

    def canonical(self, record: Record) -> bytes:
        """One row; nested parts as JSON text."""
        try:
            circuit = Circuit.model_validate_json(record.value or b"")
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            raise InvalidExecutionError(
                ".".join(str(part) for part in first["loc"]), f"not a circuit record: {first['msg']}"
            ) from None
        row = circuit.model_dump(mode="json", exclude_none=True)
        for name in _AS_JSON:
            if name in row:
                row[name] = msgspec.json.encode(row[name]).decode()
        return coordinates(record) + msgspec.json.encode(row)[1:]
