"""What became of the events, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmitterStatus:
    """Counts since the start of the process: ``emitted = acknowledged + dropped + failed + buffered``, but for what moves meanwhile."""

    emitted: int
    """Accepted from callers."""
    acknowledged: int
    """In the log, on every in-sync replica."""
    dropped: int
    """Given up because the buffer was full, or the process ended with Kafka away."""
    failed: int
    """Refused by the broker, too large, or not encodable; the log says why."""
    buffered: int
    """Waiting or in flight."""
    connected: bool
    """A producer is ready."""
    alive: bool
    """The background thread runs; it starts with the first event."""
    last_error: str | None
    """What last went wrong with Kafka or with an event."""
