"""What the worker must have counted, from the executions topic alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from tests.chaos.evidence import Event, Evidence, Place, Row
from tests.chaos.servers import circuits_of, is_of_server, owner

SLACK_S = 60.0
"""How far a producer's clock may be ahead, so that the worker still finds the first copy. ``switchgear_stream.resent`` has the same limit."""
COUNTED = {"transport", "timeout", "server", "rate_limited", "unknown"}
"""The error classes that the policies of the run count."""
UNANSWERED = {"transport", "timeout"}
"""Those that they count for servers."""
FROM_SERVER = {"tool", "invalid_input", "server", "rate_limited", "auth"}
"""Those of errors with which a server answers: successes of the server."""
PASSING = {"closed", "disabled", "metrics_only"}
"""The states in which a circuit lets calls through. A server counts refused calls only in the others."""
Changes = list[tuple[int, int, bool]]
"""Millisecond and version of each change, and whether calls go from then on."""
Outcome = Literal["success", "failed", "ignored"]
FIELDS = ("calls", "failed", "ignored", "late", "rejected")


@dataclass(slots=True)
class Tally:
    """The totals of a tool, or of a server with all its tools."""

    calls: int = 0
    failed: int = 0
    ignored: int = 0
    late: int = 0
    rejected: int = 0
    again: int = 0
    """Events that their producer sent again. They aren't in the other numbers."""
    ahead: int = 0
    """Those of them whose producer's clock is too far ahead. The worker does not find the first copy, and may count them twice."""
    late_again: int = 0
    """Those of them that came too late to be counted. The worker does not look for the first copy, and may count them as late twice."""
    together: int = 0
    """Refused calls of the millisecond in which their server's circuit opened or closed. The worker may have counted them or not."""

    def missing(self, row: Row) -> dict[str, int]:
        """Return what the worker counted too little of, with the number that it must have counted."""
        wanted = asdict(self)
        return {name: wanted[name] for name in FIELDS if getattr(row, name) < wanted[name]}

    def surplus(self, row: Row) -> dict[str, int]:
        """Return the same of what it counted too much of."""
        wanted = asdict(self)
        spare = dict.fromkeys(FIELDS, self.ahead) | {"late": self.late_again, "rejected": self.ahead + self.together}
        return {name: wanted[name] for name in FIELDS if getattr(row, name) > wanted[name] + spare[name]}


def recount(evidence: Evidence) -> dict[str, Tally]:
    """Return the totals by circuit. An event of a server's tool counts in both circuits."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    changes = _changes(evidence)
    seen: dict[str, float] = {}
    copied: set[Place] = set()
    for event in evidence.events:
        if not event.tool or owner(event.tool, evidence.partitions) != event.place[0]:
            continue  # not an execution, or one whose copy in the right partition counts
        if event.origin is not None:
            if event.origin in copied:
                continue
            copied.add(event.origin)
        first_s = seen.get(event.metric_id) if event.metric_id else None
        for circuit in circuits_of(event.tool):
            if first_s is not None:
                _count_again(tallies[circuit], event, first_s, evidence.late_after_s)
            elif is_late(event, evidence.late_after_s):
                tallies[circuit].late += 1
            else:
                _count(tallies[circuit], circuit, event, changes)
        if first_s is None:
            seen[event.metric_id] = event.timestamp_s
    return dict(tallies)


def is_late(event: Event, late_after_s: float) -> bool:
    """Return whether the event arrived too long after it was recorded to be counted."""
    return event.recorded_s is not None and event.timestamp_s - event.recorded_s > late_after_s


def outcome(event: Event, circuit: str) -> Outcome:
    """Return how a call counts in its tool's circuit, or in that of the tool's server."""
    if event.status == "success":
        return "success"
    found = event.error_class or (event.status if event.status in {"timeout", "cancelled"} else "unknown")
    if is_of_server(circuit):
        return "failed" if found in UNANSWERED else "success" if found in FROM_SERVER else "ignored"
    return "failed" if found in COUNTED else "ignored"


def _count_again(tally: Tally, event: Event, first_s: float, late_after_s: float) -> None:
    tally.again += 1
    if event.resent and event.recorded_s is not None:
        tally.ahead += event.recorded_s - SLACK_S > first_s
        tally.late_again += is_late(event, late_after_s)


def _count(tally: Tally, circuit: str, event: Event, changes: Mapping[str, Changes]) -> None:
    if event.status == "rejected":
        passes = _passes(changes[circuit], event.timestamp_s) if is_of_server(circuit) else {False}
        tally.rejected += passes == {False}
        tally.together += len(passes) > 1
        return
    found = outcome(event, circuit)
    tally.calls += 1
    tally.failed += found == "failed"
    tally.ignored += found == "ignored"


def _passes(changes: Changes, at_s: float) -> set[bool]:
    """Return whether a circuit let calls through: before that millisecond, and after each change within it."""
    at = _ms(at_s)
    before, after = bisect_left(changes, (at,)) - 1, bisect_left(changes, (at + 1,))
    return {passing for _, _, passing in changes[before:after]}


def _changes(evidence: Evidence) -> dict[str, Changes]:
    """Return the changes by circuit. A change has the time of the event behind it. At first a circuit lets calls through."""
    found: dict[str, Changes] = defaultdict(lambda: [(0, 0, True)])
    for record in evidence.circuits:
        found[record.circuit].append((_ms(record.changed_s), record.version, record.state in PASSING))
    for changes in found.values():
        changes.sort()
    return found


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def uncopied(evidence: Evidence) -> list[Event]:
    """Return the executions in a wrong partition that the worker did not copy."""
    copied = {event.origin for event in evidence.events if event.origin is not None}
    return [
        event
        for event in evidence.events
        if event.tool
        and event.origin is None
        and owner(event.tool, evidence.partitions) != event.place[0]
        and event.place not in copied
    ]
