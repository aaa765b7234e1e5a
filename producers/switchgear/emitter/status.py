"""What became of the events, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from switchgear.emitter.spool.status import SpoolStatus


@dataclass(frozen=True, slots=True)
class EmitterStatus:
    """Counts since the start of the process: ``emitted = acknowledged + dropped + failed + buffered + spooled``, but for what moves meanwhile."""

    emitted: int
    """Accepted from callers, or taken over from a dead process's spool."""
    acknowledged: int
    """In the log, on every in-sync replica."""
    dropped: int
    """Given up: the buffer or the spool was full, the spool's files were deleted or damaged, or the process ended with Kafka away."""
    failed: int
    """Refused by the broker, too large, or not encodable; the log says why."""
    buffered: int
    """Waiting in memory or in flight."""
    connected: bool
    """A producer is ready."""
    alive: bool
    """The background thread runs; it starts with the first event."""
    last_error: str | None
    """What last went wrong with Kafka or with an event."""
    spooled: int = 0
    """On disk, in the spool."""
    away_s: float | None = None
    """How long Kafka has not answered, where something waits for it; None while it answers, or nobody asks."""
    spool: SpoolStatus | None = None
    """None without a spool."""


@dataclass(slots=True)
class Receipt:
    """``acknowledged`` of ``total`` records are in the log; ``refused`` names each of the others by index with the reason."""

    total: int
    acknowledged: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Every record has its answer."""
        return self.acknowledged + len(self.refused) >= self.total
