"""Place: where a record lies in the spool, while it is on its way to Kafka."""

from __future__ import annotations

from switchgear.emitter.spool.cursor import START, Position
from switchgear.emitter.spool.journal import Journal


class Tally:
    """How many places of a spool were settled."""

    __slots__ = ("settled",)

    def __init__(self) -> None:
        self.settled = 0


class Place:
    """Settled by the thread that hears of the acknowledgement; the rest is of the one that works on the disk."""

    __slots__ = ("_tally", "done", "end", "journal")

    def __init__(self, tally: Tally, journal: Journal | None = None, end: Position = START) -> None:
        self._tally = tally
        self.journal = journal
        self.end = end
        self.done = False

    def settle(self) -> None:
        """Kafka has answered for the record."""
        self.done = True
        self._tally.settled += 1

    def give_up(self) -> None:
        """The record never came to lie there."""
        if self.done:
            self._tally.settled -= 1
