"""Spool: journals on disk as one queue, bounded in bytes; the oldest segment goes where there is no room.

A record leaves it when Kafka has answered for it. The answers come out of order (a lane a partition), so a journal's cursor
follows the finished ones without a gap; what lies behind a gap is sent again after a crash, marked, and the sink drops it.

What survives: every write is handed to the operating system at once, so ``kill -9`` of the process loses none of it; a power cut
loses what the system had not written yet, unless ``fsync`` is on.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from switchgear.emitter.spool.cursor import Position
from switchgear.emitter.spool.frame import frame
from switchgear.emitter.spool.journal import Journal
from switchgear.emitter.spool.lock import Claim
from switchgear.emitter.spool.place import Place, Tally

log: Final = logging.getLogger("switchgear.spool")

_LARGEST_SEGMENT: Final = 16 * 1_048_576
_MOST_HELD: Final = 16
"""Folders of dead processes at a time: each costs two file descriptors, and they are the application's."""
_MOST_JOURNALS: Final = 2 * _MOST_HELD


class Written(NamedTuple):
    """A record to write: its tool's name, its value, and whether Kafka may have it already."""

    tool: bytes
    value: bytes
    sent: bool


class Taken(NamedTuple):
    """A record read back; ``place`` is to be marked ``done`` when Kafka has answered for it."""

    tool: str
    value: bytes
    sent: bool
    place: Place


class Spool:
    """One thread calls the methods; the numbers may be read by any, and any may mark a place done.

    Args:
        root: The folder that processes share; each has a folder of its own in it.
        limit_bytes: Most bytes on disk, of own records and taken-over ones together.
        fsync: Wait for the disk itself after each write.
    """

    def __init__(self, root: Path, limit_bytes: int, *, fsync: bool = False) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        self._segment_bytes = max(4_096, min(_LARGEST_SEGMENT, limit_bytes // 8))
        self._fsync = fsync
        self._own: Journal | None = None
        self._journals: list[Journal] = []  # those taken over first, our own last
        self._leftovers: Iterator[Claim] | None = None  # those that had no room yet
        self._places: deque[Place] = deque()
        self._reset()

    @property
    def records(self) -> int:
        """On disk and not answered for. Read from another thread it may be a moment too low, never too high."""
        return max(0, self._written - self.tally.settled - self.dropped)

    @property
    def outstanding(self) -> int:
        """Records on their way that :meth:`progress` has not seen finished."""
        return len(self._places)

    @property
    def more(self) -> bool:
        """There is room again for dead processes' folders that :meth:`open` had none for: call it again."""
        return self._leftovers is not None and len(self._journals) <= _MOST_HELD

    def open(self) -> int:
        """Make our folder, and take over those of dead processes, the oldest first, as many as are held at a time.

        Call it again at any time for newer ones, and for those that had no room.

        Returns:
            How many records were taken over this time.

        Raises:
            OSError: the folder can't be made, read or written to.
        """
        self.renew()
        before = self.taken_over
        leftovers = Claim.leftovers(self.root) if self._leftovers is None else self._leftovers
        self._leftovers = None
        while len(self._journals) <= _MOST_HELD:  # our own is one of them
            claim = next(leftovers, None)
            if claim is None:
                break
            self._take_over(claim)
        else:
            self._leftovers = leftovers
        self._keep_bound(0)
        self._refresh()
        return self.taken_over - before

    def renew(self, *, leaving: bool = False) -> bool:
        """Hold our folders still. What somebody deleted in them is given up; where our own is gone we make another one.

        Args:
            leaving: See :meth:`Journal.look`.

        Returns:
            True.

        Raises:
            OSError: it can't be made, or looked at.
        """
        own: Journal | None = None
        try:
            # Our folder was deleted often: what is still open of all these is given up, or they had no bound.
            leaving = leaving or len(self._journals) > _MOST_JOURNALS
            for journal in self._journals:
                if journal.renew(leaving=leaving) and journal is self._own:
                    own = journal
            if own is None:
                own = Journal(Claim.fresh(self.root), segment_bytes=self._segment_bytes, fsync=self._fsync)
                self._journals.append(own)
            self._own = own
        finally:
            self._count_lost()
        self.progress()
        return True

    def append(self, records: Sequence[Written], places: Sequence[Place] | None = None) -> int:
        """Write records at the end, in order; returns how many were written: fewer where the disk gave up on the way.

        Args:
            records: What to write; none may be larger than half of the limit, no name longer than a frame can hold.
            places: With them the records are on their way to Kafka already: :meth:`read` skips them, and each place is filled
                in. Nothing may be unread then.

        Raises:
            OSError: not even the first was written.
            Exception: one of them can't be written at all, and none was.
        """
        assert self._own is not None, "open it first"
        written = 0
        try:
            while written < len(records):
                frames = self._group(records, written)
                self._keep_bound(sum(map(len, frames)))
                start = self._own.append(b"".join(frames), len(frames), read=places is not None)
                if places is not None:
                    self._keep(places[written : written + len(frames)], self._own, start, frames)
                written += len(frames)
        except Exception as error:
            if not written:
                raise
            log.warning("%d of %d events were written to %s: %s", written, len(records), self.root, error)
        finally:
            self._written += written
            self._count_lost()
            self._refresh()
        return written

    def read(self, most: int) -> list[Taken]:
        """Up to ``most`` of the oldest unread records; before this returns, the disk knows that they may be sent.

        A disk that can't be told is no reason to keep them back: were the process killed too, they would come twice.
        What turns out to be gone or damaged counts as dropped.

        Raises:
            OSError: the disk can't be read.
        """
        try:
            for journal in self._journals:
                found = journal.read(most)
                if journal.lost and not found:
                    self._save(journal)
                if found:
                    places = [Place(self.tally, journal, each.end) for each in found]
                    self._places.extend(places)
                    self._save(journal)
                    return [Taken(*each.entry[:2], each.sent, at) for each, at in zip(found, places, strict=True)]
            return []
        finally:
            self._count_lost()
            self._refresh()

    def progress(self) -> None:
        """Write down what Kafka has answered for, and delete what is finished."""
        places = self._places
        moved = set()
        while places and places[0].done:
            place = places.popleft()
            if place.journal is not None:
                place.journal.acknowledged = place.end
                moved.add(place.journal)
        for journal in list(self._journals):
            if journal in moved:
                self._save(journal)
            if journal is not self._own and not journal.unread and all(each.journal is not journal for each in places):
                self._forget(journal)
        self._refresh()

    def go_back(self) -> bool:
        """What was on its way has no answer any more: it is read again, marked as perhaps sent.

        Returns:
            True.

        Raises:
            OSError: the disk can't be read; to be tried again.
        """
        self.progress()
        for journal in self._journals:
            journal.go_back()
            journal.lost = 0  # counted below
        self._places.clear()
        self._refresh()
        missing = self._written - self.tally.settled - self.dropped - self.unread
        self.dropped += max(0, missing)  # those that lay in a segment that is dropped, or gone
        self._written += max(0, -missing)  # what was answered for behind a gap is sent again
        return True

    def close(self) -> None:
        """Write down how far Kafka has answered, and let the next process have the rest: what is there, and nothing else counts."""
        self.progress()
        with contextlib.suppress(OSError):
            there = {journal: journal.look(leaving=True) for journal in self._journals}
            self._count_lost()
            for place in self._places:  # on their way, and the copies gone
                if not place.done and place.journal and place.end.segment not in there.get(place.journal, ()):
                    self.dropped += 1
        for journal in self._journals:
            journal.close()
        self._journals.clear()
        self._own = self._leftovers = None

    def forked(self) -> None:
        """In a child: the files are the parent's; only our copies of their descriptors go."""
        for journal in self._journals:
            journal.let_go()
        self._journals.clear()
        self._own = self._leftovers = None
        self._places.clear()
        self._reset()

    def _reset(self) -> None:
        self._damaged_before = self._written = 0
        self.tally = Tally()
        self.taken_over = 0
        """Records found in the folders of dead processes."""
        self.dropped = 0
        """Records given up because there was no room, or because the disk has them no more."""
        self.damaged = 0
        """Unreadable stretches."""
        self.bytes = self.unread = 0

    def _take_over(self, claim: Claim) -> None:
        try:
            journal = Journal.taken_over(claim, segment_bytes=self._segment_bytes, fsync=self._fsync)
        except OSError as error:
            claim.release()
            log.error("what a process that is gone left in %s can't be read: %s", claim.folder, error)  # noqa: TRY400 - the trace shows nothing but us
            return
        self._journals.insert(len(self._journals) - 1, journal)
        found = journal.unread
        if found:
            log.warning("%d events of a process that is gone are taken over from %s", found, claim.folder)
            self.taken_over += found
            self._written += found
        else:
            self._forget(journal)

    def _group(self, records: Sequence[Written], first: int) -> list[bytes]:
        """The next records as frames: as many as belong into one segment, at least one."""
        frames: list[bytes] = []
        size = 0
        for record in itertools.islice(records, first, None):
            made = frame(record.tool, record.value, sent=record.sent)
            size += len(made)
            if frames and size > self._segment_bytes:
                break
            frames.append(made)
        return frames

    def _keep(self, places: Sequence[Place], journal: Journal, start: Position, frames: list[bytes]) -> None:
        end = start.byte
        for place, made in zip(places, frames, strict=True):
            end += len(made)
            place.journal, place.end = journal, Position(start.segment, end)
        self._places.extend(places)

    def _keep_bound(self, more: int) -> None:
        while (held := sum(journal.size for journal in self._journals)) and held + more > self.limit_bytes:
            dropped = next(journal for journal in self._journals if journal.size).drop_oldest()
            self.dropped += dropped
            if dropped:
                log.error(
                    "%d events were dropped, the oldest: the spool of %d bytes is full", dropped, self.limit_bytes
                )

    def _count_lost(self) -> None:
        for journal in self._journals:
            self.dropped += journal.lost
            journal.lost = 0

    def _save(self, journal: Journal) -> None:
        try:
            journal.save()
        except OSError as error:
            log.warning("how far the spool was sent can't be written to %s: %s", self.root, error)

    def _forget(self, journal: Journal) -> None:
        """A dead process's journal is done with: nothing is left in it but a torn end."""
        journal.clear()
        self._journals.remove(journal)
        self._damaged_before += journal.damaged
        journal.close()

    def _refresh(self) -> None:
        self.bytes = sum(journal.size for journal in self._journals)
        self.unread = sum(journal.unread for journal in self._journals)
        self.damaged = self._damaged_before + sum(journal.damaged for journal in self._journals)
