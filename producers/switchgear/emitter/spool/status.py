"""What lies on disk, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """The spool of one emitter, its own records and those it took over from dead processes.

    Of dead processes' folders sixteen are held at a time. What lies in the others is in no number here until their turn comes.
    """

    in_use: bool
    """New events go through the disk: Kafka is away or slow, or what lies there is being sent."""
    records: int
    """On disk and not acknowledged."""
    bytes: int
    """On disk."""
    limit_bytes: int
    taken_over: int
    """Records found in the folders of dead processes, since the start."""
    dropped: int
    """Given up because the limit was reached, oldest first; or gone: somebody deleted or damaged the files."""
    damaged: int
    """Stretches of a segment that were not readable: the torn end of a process that was killed, or a broken disk."""
    error: str | None
    """Why the disk is not used now; it is tried again. Events are in memory meanwhile."""
    waiting_s: float
    """How long the disk has not answered what was asked of it last; 0 where nothing is asked."""
