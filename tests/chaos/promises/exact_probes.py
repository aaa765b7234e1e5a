"""Exactly N probes: after a wait the fleet makes the permitted number of probe calls, even if processes die."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.chaos.evidence import CircuitRecord, Event, Evidence
from tests.chaos.promises.result import PromiseResult

PROMISE = "exactly-n-probes"


def exactly_n_probes(evidence: Evidence) -> PromiseResult:
    """Check that no generation has more calls under a lease than permitted, and that a recovery by leases has exactly as many.

    A recovery may have fewer if a call without a generation contributed. Such a call of a service without a guard is evidence like a probe's.
    """
    probes: dict[tuple[str, int], dict[str, Event]] = defaultdict(dict)
    for event in evidence.events:
        if event.tool in evidence.permitted and event.lease_id and event.generation is not None:
            probes[event.tool, event.generation][event.key] = event
    unasked = {tool: _unasked(evidence, tool) for tool in evidence.permitted}
    granted = _granted(evidence)
    faults: list[str] = []
    for (tool, generation), events in sorted(probes.items()):
        faults += _excess(evidence.permitted[tool], tool, generation, list(events.values()), granted)
    equal = 0
    for tool, recovery in _recoveries(evidence):
        permitted = evidence.permitted[tool]
        if any(recovery[0].changed_s <= at <= recovery[-1].changed_s for at in unasked[tool]):
            continue
        made = sum(event.status == "success" for event in probes[tool, recovery[0].generation].values())
        if made != permitted:
            faults.append(f"{tool} recovered in generation {recovery[0].generation} by {made} probes of {permitted}")
        equal += made == permitted
    made = sum(map(len, probes.values()))
    return PromiseResult(
        PROMISE, f"{made:,} probes in {len(probes):,} half-open stays, {equal:,} recoveries exact", faults
    )


def _excess(
    permitted: int,
    tool: str,
    generation: int,
    calls: Sequence[Event],
    granted: dict[tuple[str, int], set[tuple[str, str]]],
) -> Iterator[str]:
    if len(calls) > permitted:
        yield f"{tool}: {len(calls)} probes of {permitted} in generation {generation}"
    for event in calls:
        if (event.lease_id, event.emitter_id) not in granted.get((tool, generation), set()):
            yield f"{tool}: a probe of {event.emitter_id} under {event.lease_id}, which was not granted to it"
    if len({event.lease_id for event in calls}) < len(calls):
        yield f"{tool}: two probes under one lease in generation {generation}"


def _granted(evidence: Evidence) -> dict[tuple[str, int], set[tuple[str, str]]]:
    found: dict[tuple[str, int], set[tuple[str, str]]] = defaultdict(set)
    for record in evidence.circuits:
        found[record.circuit, record.generation].update(record.leases)
    return found


def _recoveries(evidence: Evidence) -> Iterator[tuple[str, list[CircuitRecord]]]:
    """Yield, for every recovery by probes, its half-open records and the record that closed the circuit."""
    stays: dict[str, list[CircuitRecord]] = defaultdict(list)
    seen: set[tuple[str, int]] = set()
    for record in evidence.circuits:
        if record.circuit not in evidence.permitted or (record.circuit, record.version) in seen:
            continue
        seen.add((record.circuit, record.version))
        if record.state == "half_open":
            stays[record.circuit].append(record)
            continue
        if record.state == "closed" and record.rule == "probe_succeeded" and stays[record.circuit]:
            yield record.circuit, [*stays[record.circuit], record]
        stays[record.circuit].clear()


def _unasked(evidence: Evidence, tool: str) -> list[float]:
    return [
        event.timestamp_s
        for event in evidence.events
        if event.tool == tool and event.generation is None and event.status != "rejected"
    ]
