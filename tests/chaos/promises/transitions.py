"""Transitions are stored: ClickHouse has every version that the circuits topic has, and no other."""

from __future__ import annotations

from tests.chaos.evidence import Evidence
from tests.chaos.verdict import Verdict

PROMISE = "transitions-stored"


def transitions_stored(evidence: Evidence) -> Verdict:
    """Compared by circuit, version and state."""
    published = {(record.circuit, record.version, record.state) for record in evidence.circuits}
    stored = set(evidence.transitions)
    faults = [
        f"{circuit} version {version} ({state}) is not stored" for circuit, version, state in sorted(published - stored)
    ]
    faults += [
        f"{circuit} version {version} ({state}) is stored but not in the topic"
        for circuit, version, state in sorted(stored - published)
    ]
    return Verdict(PROMISE, f"{len(published):,} versions published, {len(stored):,} stored", faults)
