"""One owner, one order: the versions of a circuit rise, and each version has one content."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.chaos.evidence import CircuitRecord, Evidence
from tests.chaos.promises.result import PromiseResult

PROMISE = "one-owner-one-order"


def one_owner_one_order(evidence: Evidence) -> PromiseResult:
    """Check that every record, except exact repetitions, has a higher version than all before it."""
    by_circuit: dict[str, list[CircuitRecord]] = defaultdict(list)
    for record in evidence.circuits:
        by_circuit[record.circuit].append(record)
    faults: list[str] = []
    repeated = 0
    for circuit, records in sorted(by_circuit.items()):
        repeated += len(records) - len({record.version for record in records})
        faults += _order(circuit, records)
        row = evidence.rows.get(circuit)
        concluded = max(record.version for record in records)
        if row is None or row.version != concluded:
            held = "no row" if row is None else f"version {row.version}"
            faults.append(f"{circuit}: followers conclude version {concluded}, the worker's table has {held}")
    summary = f"{len(by_circuit)} circuits, {len(evidence.circuits):,} records, {repeated} published again unchanged"
    return PromiseResult(PROMISE, summary, faults)


def _order(circuit: str, records: Iterable[CircuitRecord]) -> Iterator[str]:
    contents: dict[int, bytes] = {}
    highest = generation = 0
    partitions = set()
    for record in records:
        partitions.add(record.partition)
        if record.version in contents:
            if contents[record.version] != record.content:
                yield f"{circuit}: two contents of version {record.version}"
            continue
        contents[record.version] = record.content
        if record.version < highest:
            yield f"{circuit}: version {record.version} after {highest}"
            continue
        if record.generation < generation:
            yield f"{circuit}: generation {record.generation} after {generation} in version {record.version}"
        highest, generation = record.version, record.generation
    if len(partitions) > 1:
        yield f"{circuit}: records in the partitions {sorted(partitions)}"
