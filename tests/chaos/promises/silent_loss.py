"""No silent loss: every acknowledged event is counted and stored, or is a dead letter. ClickHouse has every version of every circuit."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.evidence import Evidence
from tests.chaos.promises.recount import recount, uncopied
from tests.chaos.promises.result import PromiseResult

PROMISE = "no-silent-loss"
TRANSITIONS = "transitions-stored"


def no_silent_loss(evidence: Evidence) -> PromiseResult:
    """Check every acknowledged event of the ledgers, every record of the topics, and every total of the worker's table."""
    acknowledged = [
        (ledger.name, ledger.offered[number].key, number in ledger.junk)
        for ledger in evidence.ledgers
        for number in sorted(ledger.acknowledged)
    ]
    places = {event.key: event.place for event in evidence.events}
    stored = {row.key or row.metric_id for row in evidence.stored} | {row.metric_id for row in evidence.stored}
    faults = []
    kept = dead = 0
    for name, key, junk in acknowledged:
        if key not in places:
            faults.append(f"{key} of {name} was acknowledged and is not in the topic")
        elif key in stored and not junk:
            kept += 1
        elif places[key] in evidence.dead:
            dead += 1
        else:
            faults.append(f"{key} of {name} at {places[key]} is neither stored nor a dead letter")
    faults += _unstored(evidence)
    faults += [
        f"the record at {place} is stored and a dead letter at once"
        for place in sorted({row.place for row in evidence.stored} & evidence.dead)
    ]
    faults += [
        f"the garbage at {offset} of partition {partition} of {topic} isn't a dead letter"
        for topic, partition, offset in sorted(evidence.garbage - evidence.buried)
    ]
    faults += _uncounted(evidence)
    offered = sum(len(ledger.offered) for ledger in evidence.ledgers)
    summary = (
        f"{offered:,} offered, {len(acknowledged):,} acknowledged, {kept:,} of them stored, {dead:,} dead-lettered,"
        f" {len(evidence.garbage):,} records of garbage elsewhere"
    )
    return PromiseResult(PROMISE, summary, len(acknowledged) + len(evidence.events), faults)


def _unstored(evidence: Evidence) -> Iterator[str]:
    """Yield the records that are neither stored nor dead letters, acknowledged or not.

    A marked record needs no row if another one of its call is stored. The same holds for an unmarked one that a marked one of its
    partition has overtaken: a gateway that was cut off passes on what it had, after its client has sent the same to another one.
    """
    places = {row.place for row in evidence.stored}
    keys = {row.key for row in evidence.stored} | {row.metric_id for row in evidence.stored}
    marked: dict[tuple[str, int], int] = {}
    for event in evidence.events:
        if event.resent:
            call = (event.key, event.place[0])
            marked[call] = min(event.place[1], marked.get(call, event.place[1]))
    for event in evidence.events:
        partition, offset = event.place
        if event.origin is not None or event.place in places or event.place in evidence.dead:
            continue
        if not (event.key in keys and marked.get((event.key, partition), offset + 1) <= offset):
            yield f"the record at {event.place} ({event.tool or 'not an execution'}) is neither stored nor a dead letter"


def _uncounted(evidence: Evidence) -> Iterator[str]:
    for event in uncopied(evidence):
        yield f"{event.key} of {event.tool} in the wrong partition {event.place} was not sent on to its owner"
    for circuit, tally in sorted(recount(evidence).items()):
        row = evidence.rows.get(circuit)
        if row is None:
            yield f"{circuit} has no row in the worker's table"
            continue
        for name, wanted in tally.missing(row).items():
            yield f"{circuit}: the worker counted {getattr(row, name)} {name} of {wanted}"


def transitions_stored(evidence: Evidence) -> PromiseResult:
    """Check that ClickHouse has every version of the circuits topic and no other, by circuit, version and state."""
    published = {(record.circuit, record.version, record.state) for record in evidence.circuits}
    stored = set(evidence.transitions)
    faults = [
        f"{circuit} version {version} ({state}) is not stored" for circuit, version, state in sorted(published - stored)
    ]
    faults += [
        f"{circuit} version {version} ({state}) is stored and was never published"
        for circuit, version, state in sorted(stored - published)
    ]
    summary = f"{len(published):,} versions published, {len(stored):,} stored"
    return PromiseResult(TRANSITIONS, summary, len(published), faults)
