"""Journal: the segments and the cursor in one process's folder."""

from __future__ import annotations

import errno
import logging
from collections import deque
from typing import Final, NamedTuple

from switchgear.emitter.spool.cursor import START, Cursor, Marks, Position
from switchgear.emitter.spool.frame import Entry
from switchgear.emitter.spool.lock import Claim
from switchgear.emitter.spool.segment import SUFFIX, Segment

log: Final = logging.getLogger("switchgear.spool")

_TRIES: Final = 5
"""A segment that could not be read so often is given up: whatever is newer waits behind it."""
_MOST_OPEN: Final = 16
"""Deleted segments that are kept open for what is unread in them: descriptors are the application's."""
_NOT_ITS_FAULT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class Found(NamedTuple):
    """A record with its place. ``sent``: Kafka may have it already."""

    entry: Entry
    end: Position
    sent: bool


class Journal:
    """Appended to at its end and read from its beginning, by one thread."""

    def __init__(self, claim: Claim, *, segment_bytes: int, fsync: bool) -> None:
        self._claim = claim
        self._segment_bytes = segment_bytes
        self._fsync = fsync
        self._cursor = Cursor(claim.folder)
        self._segments: deque[Segment] = deque()
        self._next = 1
        self._sealed = True
        self._read_to = self._given = self._handed = START
        self.acknowledged = START
        """Everything before it is in Kafka; the owner moves it on."""
        self._inherited = self._foreign = False
        self.damaged = 0
        """Stretches that were not readable: a torn tail, or damage."""
        self.lost = 0
        """Unread records that are not there any more: deleted, cut off, overwritten. The owner counts them, and sets it back."""

    @classmethod
    def taken_over(cls, claim: Claim, *, segment_bytes: int, fsync: bool) -> Journal:
        """What a dead process left, from where Kafka had not acknowledged it.

        Raises:
            OSError: it can't be read.
        """
        journal = cls(claim, segment_bytes=segment_bytes, fsync=fsync)
        journal._inherited = True
        numbers = [each.name.removesuffix(SUFFIX) for each in claim.folder.glob(f"*{SUFFIX}")]
        for number in sorted(int(each) for each in numbers if each.isdecimal()):
            journal._segments.append(Segment(claim.folder, number, found=True))
            journal._next = number + 1
        journal._go_back(journal._cursor.load())
        return journal

    @property
    def size(self) -> int:
        """On disk."""
        return sum(segment.size for segment in self._segments)

    @property
    def unread(self) -> int:
        """Records that :meth:`read` has not returned."""
        return sum(segment.unread for segment in self._segments)

    def append(self, frames: bytes, records: int, *, read: bool = False) -> Position:
        """Write at the end; returns where ``frames`` begin. ``read``: they are in memory too, so :meth:`read` skips them.

        Raises:
            OSError: nothing was written.
        """
        if self._foreign:
            raise OSError(f"another process has {self._claim.folder} now")
        if self._sealed or self._segments[-1].size >= self._segment_bytes or not self._segments[-1].intact:
            if self._segments:
                self._segments[-1].seal()
            self._sealed = True
            deleted = [segment for segment in self._segments if segment.open]
            if len(deleted) > _MOST_OPEN:
                self._give_up(deleted[0], "gone, somebody deleted the file")
            self._segments.append(Segment(self._claim.folder, self._next))
            self._next += 1
            self._sealed = False
        segment = self._segments[-1]
        start = Position(segment.number, segment.size)
        try:
            segment.append(frames, records, fsync=self._fsync)
        except OSError:
            self._sealed = True  # whatever lies at its end, the next record begins a file of its own
            if not segment.size:
                self._segments.pop().remove()
            raise
        if read:
            segment.read_to, segment.unread = segment.size, 0
            self._read_to = self._given = Position(segment.number, segment.size)
        return start

    def read(self, most: int) -> list[Found]:
        """Up to ``most`` of the next records, in order; none when all are read. A segment that is gone is given up.

        Raises:
            OSError: the file can't be read; it is given up when it could not be read for the fifth time.
        """
        for segment in list(self._segments):
            while segment.read_to < segment.size:
                unread = segment.unread
                try:
                    start, parsed = segment.read(most)
                except OSError as error:
                    self._unreadable(segment, error)
                    break
                if not self._inherited:  # there they were counted on the way in
                    self.damaged += parsed.damaged
                if segment.read_to >= segment.size:
                    self._lose(unread - len(parsed.entries), segment, "damaged or cut off")
                self._read_to = max(self._read_to, Position(segment.number, segment.read_to))
                if parsed.entries:
                    found = [
                        Found(each, end := Position(segment.number, start + each.end), each.sent or end <= self._handed)
                        for each in parsed.entries
                    ]
                    self._given = found[-1].end
                    return found
        return []

    def save(self) -> None:
        """Write down what is acknowledged, and that all that was read may be in Kafka; delete what is finished.

        Raises:
            OSError: the disk won't have it.
        """
        if self._foreign:
            return
        acknowledged = self.acknowledged
        self._cursor.save(Marks(acknowledged, max(self._read_to, self._handed)), fsync=self._fsync)
        while len(self._segments) > 1 and self._segments[0].number < acknowledged.segment:
            self._segments.popleft().remove()
        if acknowledged >= self._given and not self.unread:
            self.clear()

    def go_back(self) -> None:
        """Read again what is not acknowledged: it may have been sent, and has no answer.

        Raises:
            OSError: it can't be read.
        """
        self._go_back(Marks(self.acknowledged, max(self._read_to, self._handed)))

    def drop_oldest(self) -> int:
        """Delete the first segment; returns how many records in it were not read."""
        segment = self._segments.popleft()
        self._sealed = self._sealed or not self._segments
        segment.remove()
        return segment.unread

    def renew(self, *, leaving: bool = False) -> bool:
        """Hold the folder still, and give up what somebody deleted in it. False when nothing may be written there any more.

        Args:
            leaving: See :meth:`look`.

        Raises:
            OSError: it can't be looked at.
        """
        try:
            self._foreign = self._foreign or not self._claim.renew()
        except (FileNotFoundError, NotADirectoryError):
            here = False
        else:
            here = not self._foreign
        self.look(leaving=leaving)
        return here

    def look(self, *, leaving: bool) -> set[int]:
        """Give up what somebody deleted; returns the numbers of the segments that are there.

        Args:
            leaving: What a deleted file still holds because it is open is given up too: no next process will find it.

        Raises:
            OSError: they can't be looked at.
        """
        for segment in list(self._segments):
            if self._foreign:
                self._give_up(segment, "another process's to send by now")
            elif segment.gone(leaving=leaving):
                self._give_up(segment, "gone, somebody deleted the file")
        return {segment.number for segment in self._segments}

    def clear(self) -> None:
        """Delete every segment: what is left of them can't be read."""
        while self._segments:
            self.drop_oldest()

    def close(self) -> None:
        """Leave the folder to whoever comes next, or delete it where nothing is left in it."""
        if not self._segments:
            self._claim.remove()
        self.let_go()

    def let_go(self) -> None:
        """Give the file descriptors back, and with the last copy of them the lock."""
        for segment in self._segments:
            segment.close()
        self._cursor.close()
        self._claim.release()

    def _go_back(self, marks: Marks) -> None:
        while self._segments and self._segments[0].number < marks.acknowledged.segment:
            self._segments.popleft().remove()
        for segment in list(self._segments):
            here = segment.number == marks.acknowledged.segment
            segment.read_to = min(segment.size, marks.acknowledged.byte) if here else 0
            try:
                self.damaged += segment.count()
            except OSError as error:
                self._unreadable(segment, error)
        self.acknowledged = self._read_to = self._given = marks.acknowledged
        self._handed = marks.handed

    def _unreadable(self, segment: Segment, error: OSError) -> None:
        """Give it up where that is for good.

        Raises:
            OSError: ``error``; another time it may be readable.
        """
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            segment.failures += error.errno not in _NOT_ITS_FAULT
            if segment.failures < _TRIES:
                raise error
        self._give_up(segment, f"can't be read: {error}")

    def _give_up(self, segment: Segment, why: str) -> None:
        """Count what is unread in it as lost, and go on without it; the file of another process stays."""
        self._lose(segment.unread, segment, why)
        self._sealed = self._sealed or segment is self._segments[-1]
        self._segments.remove(segment)
        if self._foreign:
            segment.close()
        else:
            segment.remove()

    def _lose(self, records: int, segment: Segment, why: str) -> None:
        if records > 0:
            self.lost += records
            log.error("%d events were dropped, those in %s are %s", records, segment.path, why)
