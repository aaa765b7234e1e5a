"""What the worker must have counted, from the executions topic alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from aiokafka.partitioner import murmur2

from tests.chaos.evidence import Event, Evidence, Place

SLACK_S = 60.0
"""How far a producer's clock may be ahead, so that the worker still finds the first copy. ``switchgear_stream.resent`` has the same limit."""
COUNTED = {"transport", "timeout", "server", "rate_limited", "unknown"}
"""The error classes that the policies of the run count."""
FIELDS = ("calls", "failed", "ignored", "late", "rejected")


@dataclass(slots=True)
class Tally:
    """The totals of one tool."""

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


def owner(tool: str, partitions: int) -> int:
    """Return the partition of a tool by Kafka's default partitioner."""
    return int(murmur2(tool.encode()) & 0x7FFFFFFF) % partitions


def recount(evidence: Evidence) -> dict[str, Tally]:
    """Return the totals by tool."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    seen: dict[str, float] = {}
    copied: set[Place] = set()
    for event in evidence.events:
        if not event.tool or owner(event.tool, evidence.partitions) != event.place[0]:
            continue  # not an execution, or one whose copy in the right partition counts
        if event.origin is not None:
            if event.origin in copied:
                continue
            copied.add(event.origin)
        tally = tallies[event.tool]
        first_s = seen.get(event.metric_id) if event.metric_id else None
        if first_s is not None:
            tally.again += 1
            if event.resent and event.recorded_s is not None:
                tally.ahead += event.recorded_s - SLACK_S > first_s
                tally.late_again += _is_late(event, evidence.late_after_s)
            continue
        seen[event.metric_id] = event.timestamp_s
        _count(tally, event, evidence.late_after_s)
    return dict(tallies)


def _is_late(event: Event, late_after_s: float) -> bool:
    return event.recorded_s is not None and event.timestamp_s - event.recorded_s > late_after_s


def _count(tally: Tally, event: Event, late_after_s: float) -> None:
    if _is_late(event, late_after_s):
        tally.late += 1
    elif event.status == "rejected":
        tally.rejected += 1
    else:
        tally.calls += 1
        default = event.status if event.status in {"timeout", "cancelled"} else "unknown"
        if event.status != "success":
            counts = (event.error_class or default) in COUNTED
            tally.failed += counts
            tally.ignored += not counts


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
