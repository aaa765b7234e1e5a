"""The emitter's counts and condition."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """The spool of one emitter. Files of processes that are gone count from when they are taken over, one at a time."""

    in_use: bool
    """New events go through the disk, because Kafka does not answer, is slow, or the disk still holds older events."""
    records: int
    """Events on disk that Kafka has not acknowledged."""
    bytes: int
    """Size on disk."""
    limit_bytes: int
    """Most bytes on disk."""
    taken_over: int
    """Events found in the files of processes that are gone, since the start."""
    dropped: int
    """Events given up: the limit was reached (the oldest go first), or a file was damaged."""
    damaged: int
    """Files that could not be read. They were renamed."""
    error: str | None
    """Why the disk is not used now. It is tried again; meanwhile events stay in memory."""


@dataclass(frozen=True, slots=True)
class EmitterStatus:
    """Counts since the start of the process.

    ``emitted = acknowledged + dropped + failed + buffered + spooled``, except for events that move at this moment.
    """

    emitted: int
    """Accepted from callers, or taken over from the spool of a process that is gone."""
    acknowledged: int
    """Written by every in-sync replica."""
    dropped: int
    """Given up: the buffer or the spool was full, a file of the spool was damaged, or the process ended while Kafka was down."""
    failed: int
    """Refused by the broker, too large, or not encodable. The log says why."""
    buffered: int
    """In memory: waiting, or sent and not acknowledged."""
    connected: bool
    """A producer is ready."""
    alive: bool
    """The background thread runs. It starts with the first event."""
    last_error: str | None
    """The last problem with Kafka or with an event."""
    spooled: int = 0
    """On disk, in the spool."""
    away_s: float | None = None
    """How long Kafka has not answered. None if it answers, or nothing waits for it."""
    spool: SpoolStatus | None = None
    """None without a spool."""


@dataclass(slots=True)
class Receipt:
    """The answers to ``total`` submitted records. ``refused`` has the index and the reason of each refused record."""

    total: int
    acknowledged: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every record has its answer."""
        return self.acknowledged + len(self.refused) >= self.total
