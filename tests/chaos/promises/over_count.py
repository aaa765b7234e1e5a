"""No over-count: replays change nothing in the circuits and in ClickHouse."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.evidence import Evidence, Place
from tests.chaos.promises.recount import Tally, recount
from tests.chaos.promises.result import PromiseResult
from tests.chaos.servers import is_of_server

PROMISE = "no-over-count"


def no_over_count(evidence: Evidence) -> PromiseResult:
    """Check that each event has one row, that the rollups agree with the rows, and that the totals agree with the topic."""
    by_id: dict[str, list[Place]] = defaultdict(list)
    for row in evidence.stored:
        by_id[row.metric_id].append(row.place)
    resent = {event.place for event in evidence.events if event.resent}
    places = Counter(row.place for row in evidence.stored)
    faults = [
        f"metric_id {metric_id} is stored {len(found)} times: {', '.join(_shown(place, resent) for place in found)}"
        for metric_id, found in by_id.items()
        if len(found) > 1
    ]
    faults += [f"the record at {place} is stored {number} times" for place, number in places.items() if number > 1]
    faults += [f"rollup {what}: {number} keys differ" for what, number in evidence.rollups_differ.items() if number]
    tallies = recount(evidence)
    faults += _totals(evidence, tallies)
    again = sum(tally.again for circuit, tally in tallies.items() if not is_of_server(circuit))
    tools = [row.calls for row in evidence.rows.values() if not is_of_server(row.circuit)]
    servers = [row.calls for row in evidence.rows.values() if is_of_server(row.circuit)]
    summary = (
        f"{len(by_id):,} ids in {len(evidence.stored):,} rows, {len(evidence.rollups_differ)} rollups agree,"
        f" {len(tools)} tools counted {sum(tools):,} calls, {len(servers)} servers {sum(servers):,} of them,"
        f" {again:,} events sent again"
    )
    return PromiseResult(PROMISE, summary, len(evidence.stored), faults)


def _shown(place: Place, resent: set[Place]) -> str:
    return f"{place}{' marked as sent again' if place in resent else ''}"


def _totals(evidence: Evidence, tallies: dict[str, Tally]) -> Iterator[str]:
    for circuit, row in sorted(evidence.rows.items()):
        tally = tallies.get(circuit)
        if tally is None:
            yield f"{circuit} has a row in the worker's table and no event"
            continue
        why = f" ({tally.again} were sent again by their producer)" if tally.again else ""
        for name, wanted in tally.surplus(row).items():
            yield f"{circuit}: the worker counted {getattr(row, name)} {name} of {wanted}{why}"
