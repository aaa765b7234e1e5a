"""One owner, one order: the versions of a circuit rise, and each version has one content."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.chaos.evidence import CircuitRecord, Evidence
from tests.chaos.promises.result import PromiseResult
from tests.chaos.servers import is_of_server, owner

PROMISE = "one-owner-one-order"


def one_owner_one_order(evidence: Evidence) -> PromiseResult:
    """Check that every record, except exact repetitions, is in its owner's partition and has a higher version than all before it."""
    by_circuit: dict[str, list[CircuitRecord]] = defaultdict(list)
    for record in evidence.circuits:
        by_circuit[record.circuit].append(record)
    faults: list[str] = []
    repeated = 0
    for circuit, records in sorted(by_circuit.items()):
        repeated += len(records) - len({record.version for record in records})
        faults += _order(circuit, records)
        faults += _astray(circuit, records, evidence.partitions)
        row = evidence.rows.get(circuit)
        concluded = max(record.version for record in records)
        if row is None or row.version != concluded:
            held = "no row" if row is None else f"version {row.version}"
            faults.append(f"{circuit}: followers conclude version {concluded}, the worker's table has {held}")
    servers = sum(map(is_of_server, by_circuit))
    summary = (
        f"{len(by_circuit)} circuits, {servers} of them of servers, {len(evidence.circuits):,} records,"
        f" {repeated} published again unchanged"
    )
    return PromiseResult(PROMISE, summary, len(evidence.circuits), faults)


def _order(circuit: str, records: Iterable[CircuitRecord]) -> Iterator[str]:
    contents: dict[int, bytes] = {}
    highest = generation = 0
    for record in records:
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


def _astray(circuit: str, records: Iterable[CircuitRecord], partitions: int) -> Iterator[str]:
    """Yield the partitions that aren't the owner's. A server and its tools have one owner."""
    home = owner(circuit, partitions)
    for partition in sorted({record.partition for record in records} - {home}):
        yield f"{circuit}: records in partition {partition}, but its owner's is {home}"
