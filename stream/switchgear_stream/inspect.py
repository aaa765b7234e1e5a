"""The workers' state as Kafka holds it: rows from the changelog, circuit records from their topic.

You can verify the counters without a worker: recount the executions topic and compare the sums with :func:`totals`.
"""

from __future__ import annotations

from typing import Any

from switchgear.fleet.rows import Row, RowError, applied, check_row, is_circuit
from switchgear_schemas import Circuit, InvalidExecutionError
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.settings import Settings
from switchgear_stream.topic_reader import read_to_end


async def read_rows(settings: Settings, *, timeout_s: float = 60.0) -> dict[str, Row]:
    """Return every circuit's row from the changelog, by circuit id.

    Raises:
        BrokerUnavailableError: The broker did not answer in time.
    """
    newest: dict[bytes, bytes] = {}
    async for record in read_to_end(settings, settings.topics.changelog, timeout_s=timeout_s):
        take_row(newest, record, settings.topic_partitions, settings.family_pattern)
    rows = [Row.decode(value) for key, value in newest.items() if is_circuit(key)]
    return {row.circuit_id: row for row in rows}


def take_row(newest: dict[bytes, bytes], record: Any, partitions: int, family_pattern: str) -> None:
    """Apply the next record of the changelog to ``newest``, by key. Older rows, and rows that the worker ignores, change nothing."""
    if record.value is None:
        held = newest.get(record.key)
        if held is not None and _is_at_home(record, held, partitions, family_pattern):
            del newest[record.key]
        return
    try:
        check_row(record.key, record.value, record.partition, partitions, family_pattern)
    except RowError:
        return
    if record.key not in newest or applied(record.value) >= applied(newest[record.key]):
        newest[record.key] = record.value


def _is_at_home(record: Any, held: bytes, partitions: int, family_pattern: str) -> bool:
    """Return whether a tombstone is in the partition of the row held. No owner wrote one that is elsewhere."""
    if not is_circuit(record.key):
        return True
    home = partition_of(Row.decode(held).tool_name, partitions, family_pattern)
    return bool(home == record.partition)


async def read_circuits(settings: Settings, *, timeout_s: float = 60.0) -> dict[str, list[Circuit]]:
    """Return every record of the circuits topic by circuit id, in the order of the log.

    Raises:
        BrokerUnavailableError: The broker did not answer in time.
    """
    found: dict[str, list[Circuit]] = {}
    async for record in read_to_end(settings, settings.topics.circuits, timeout_s=timeout_s):
        if record.value:
            try:
                circuit = Circuit.from_bytes(record.value)
            except InvalidExecutionError:
                continue  # followers ignore it too
            found.setdefault(circuit.circuit_id, []).append(circuit)
    return found


def totals(rows: dict[str, Row]) -> dict[str, Any]:
    """Return the sums over all circuits but those of families. An independent recount of the executions topic must give the same."""
    counted = [row for row in rows.values() if row.scope != "family"]
    return {
        "circuits": len(counted),
        "total_calls": sum(row.total_calls for row in counted),
        "total_failed": sum(row.total_failed for row in counted),
        "total_rejected": sum(row.total_rejected for row in counted),
        "late": sum(row.late for row in counted),
    }
