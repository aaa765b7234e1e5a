"""Evidence made by hand, for the tests of the promises."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.chaos.evidence import CircuitRecord, Event, Evidence, Stored
from tests.chaos.promises.all_promises import PROMISES
from tests.chaos.promises.result import PromiseResult, check_promises
from tests.chaos.servers import owner

TOOL = "guarded:one-0:tool"
PARTITIONS = 6
HOME = owner(TOOL, PARTITIONS)


def an_event(offset: int, **fields: Any) -> Event:
    """Return a successful call of ``tool`` in its owner's partition, a second after the call of the offset before."""
    key = fields.pop("key", f"call-{offset}")
    tool = fields.get("tool", TOOL)
    given = {
        "place": (owner(tool, PARTITIONS), offset), "timestamp_s": 1000.0 + offset, "key": key, "metric_id": f"id-{key}",
        "tool": tool, "status": "success", "error_class": None, "recorded_s": 1000.0 + offset, "emitter_id": "p1",
        "generation": 0, "lease_id": None, "resent": False, "origin": None,
    }  # fmt: skip
    return Event(**(given | fields))


def a_record(
    version: int,
    generation: int,
    state: str,
    rule: str = "",
    leases: Sequence[tuple[str, str]] = (),
    timestamp_s: float = 1000.0,
    circuit: str = TOOL,
    **fields: Any,
) -> CircuitRecord:
    """Return a record of a circuit in its owner's partition."""
    content = json.dumps([version, generation, state, rule, leases]).encode()
    held = tuple(leases)
    home = owner(circuit, PARTITIONS)
    return CircuitRecord(
        circuit, version, generation, state, rule, timestamp_s, timestamp_s, held, content, home, **fields
    )


def store(evidence: Evidence, event: Event) -> None:
    """Add the row of an event in ClickHouse."""
    evidence.stored.append(Stored(event.key, event.metric_id, event.place))


def broken(evidence: Evidence) -> dict[str, PromiseResult]:
    """Return the promises that are broken."""
    return {result.promise: result for result in check_promises(evidence, PROMISES) if result.broken}


def only(evidence: Evidence, promise: str) -> list[str]:
    """Return the faults of the one promise that is broken."""
    found = broken(evidence)
    assert set(found) == {promise}, {name: each.faults for name, each in found.items()}
    return found[promise].faults


def check_a_wrong_total(evidence: Evidence, circuit: str, name: str) -> None:
    """Check that a total of the worker's row is found to be a loss if it is too low, and an over-count if it is too high."""
    before = getattr(evidence.rows[circuit], name)
    setattr(evidence.rows[circuit], name, before - 1)
    assert only(evidence, "no-silent-loss") == [f"{circuit}: the worker counted {before - 1} {name} of {before}"]
    setattr(evidence.rows[circuit], name, before + 1)
    assert only(evidence, "no-over-count") == [f"{circuit}: the worker counted {before + 1} {name} of {before}"]
