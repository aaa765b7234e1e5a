"""What an offset commit says besides its offset: the batch that may be unfinished, and what the store has already."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_RANGES: Final = 32
"""Partitions of one batch. With the largest numbers, their ranges fit into a commit's metadata, which may have 4,096 bytes."""
_RANGE: Final = r"\d+=\d+-\d+:-?\d+"
_PENDING: Final = re.compile(rf"pending:({_RANGE}(?:,{_RANGE})*)")
_NUMBERS: Final = re.compile(r"(\d+)=(\d+)-(\d+):(-?\d+)")
_STORED: Final = re.compile(r"stored:(\d+)-(\d+)")
NOTHING: Final = range(0)


class Range(NamedTuple):
    """The offsets ``first`` to ``last`` of one partition.

    ``stamp`` is the first record's Kafka timestamp. It matters when a topic is deleted and created again, because the
    offsets start over. Without the stamp ClickHouse would take the first batches for repetitions and drop them.
    """

    partition: int
    first: int
    last: int
    stamp: int

    def __str__(self) -> str:
        return f"{self.partition}={self.first}-{self.last}:{self.stamp}"


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is about to be inserted: one range of each of some partitions of a topic, by rising partition."""

    ranges: tuple[Range, ...]

    @classmethod
    def naming(cls, ranges: Iterable[Range]) -> Intent:
        """Return the intent of these ranges."""
        return cls(tuple(sorted(ranges)))

    def metadata(self) -> str:
        """Return the intent as the metadata of an offset commit."""
        return f"pending:{self._text()}"

    def token(self, topic: str) -> str:
        """Return the ``insert_deduplication_token`` of the batch."""
        return f"{topic}:{self._text()}"

    def of(self, partition: int) -> Range | None:
        """Return the range of ``partition``."""
        return next((each for each in self.ranges if each.partition == partition), None)

    @classmethod
    def parse(cls, metadata: str | None) -> Intent | None:
        """Return the intent that :meth:`metadata` wrote; None for anything else."""
        match = _PENDING.fullmatch(metadata or "")
        if match is None:
            return None
        return cls(tuple(Range(*map(int, numbers)) for numbers in _NUMBERS.findall(match[1])))

    def _text(self) -> str:
        return ",".join(map(str, self.ranges))


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit of one partition: the next offset to read, and what its metadata says of the offsets from there on.

    ``pending`` is the batch that may be unfinished. ``stored`` are offsets that the store has already: while the offsets before them
    are read again (``switchgear sink --rewind``), they are passed over. Both are in one commit, so a crash can't part them.
    """

    offset: int
    pending: Intent | None = None
    stored: range = NOTHING

    def metadata(self) -> str:
        """Return ``pending`` and ``stored`` as the metadata of the commit."""
        found = [] if self.pending is None else [self.pending.metadata()]
        if self.offset < self.stored.stop:
            found.append(f"stored:{self.stored.start}-{self.stored.stop}")
        return " ".join(found)

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Committed:
        """Return the commit that :meth:`metadata` was written for. Anything else in the metadata is ignored."""
        pending, stored = None, NOTHING
        for word in (metadata or "").split(" "):
            pending = pending or Intent.parse(word)
            if match := _STORED.fullmatch(word):
                stored = range(int(match[1]), int(match[2]))
        return cls(offset, pending, stored)
