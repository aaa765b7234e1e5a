"""Exactly N probes: after a wait the fleet makes the permitted number of probe calls, even if processes die.

A server's circuit permits them for all its tools together. A call may be a probe of its tool or of its tool's server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.chaos.evidence import CircuitRecord, Evidence
from tests.chaos.promises.recount import outcome
from tests.chaos.promises.result import PromiseResult
from tests.chaos.servers import circuits_of, is_of_server

PROMISE = "exactly-n-probes"


class Probe(NamedTuple):
    """A call under a lease."""

    lease_id: str
    emitter_id: str
    good: bool


def exactly_n_probes(evidence: Evidence) -> PromiseResult:
    """Check that no generation has more calls under a lease than permitted, and that a recovery by leases has exactly as many.

    A recovery may have fewer if a call without a generation contributed. Such a call of a service without a guard is evidence like a probe's.
    """
    probes: dict[tuple[str, int], dict[str, Probe]] = defaultdict(dict)
    unasked: dict[str, list[float]] = defaultdict(list)
    for event in evidence.events:
        for circuit in circuits_of(event.tool):
            if event.status == "rejected" or circuit not in evidence.permitted:
                continue
            generation, lease_id = event.under(circuit)
            if generation is None:
                unasked[circuit].append(event.timestamp_s)
            elif lease_id:
                probes[circuit, generation][event.key] = Probe(
                    lease_id, event.emitter_id, outcome(event, circuit) == "success"
                )
    granted = _granted(evidence)
    faults: list[str] = []
    for (circuit, generation), calls in sorted(probes.items()):
        faults += _excess(evidence.permitted[circuit], circuit, generation, list(calls.values()), granted)
    equal = {False: 0, True: 0}
    for circuit, recovery in _recoveries(evidence):
        permitted = evidence.permitted[circuit]
        if any(recovery[0].changed_s <= at <= recovery[-1].changed_s for at in unasked[circuit]):
            continue
        made = sum(probe.good for probe in probes[circuit, recovery[0].generation].values())
        if made != permitted:
            faults.append(f"{circuit} recovered in generation {recovery[0].generation} by {made} probes of {permitted}")
        equal[is_of_server(circuit)] += made == permitted
    of_servers = sum(len(calls) for (circuit, _), calls in probes.items() if is_of_server(circuit))
    summary = (
        f"{sum(map(len, probes.values())):,} probes, {of_servers:,} of them of servers, in {len(probes):,} half-open stays,"
        f" {equal[False]:,} recoveries of tools and {equal[True]:,} of servers exact"
    )
    return PromiseResult(PROMISE, summary, sum(map(len, probes.values())), faults)


def _excess(
    permitted: int,
    circuit: str,
    generation: int,
    calls: Sequence[Probe],
    granted: dict[tuple[str, int], set[tuple[str, str]]],
) -> Iterator[str]:
    if len(calls) > permitted:
        yield f"{circuit}: {len(calls)} probes of {permitted} in generation {generation}"
    for probe in calls:
        if (probe.lease_id, probe.emitter_id) not in granted.get((circuit, generation), set()):
            yield f"{circuit}: a probe of {probe.emitter_id} under {probe.lease_id}, which was not granted to it"
    if len({probe.lease_id for probe in calls}) < len(calls):
        yield f"{circuit}: two probes under one lease in generation {generation}"


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
