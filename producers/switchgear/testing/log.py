"""Topics of Kafka in memory, as far as Switchgear uses them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Final

from switchgear.fleet import Message
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.partitioner import owner_partition

_DIGEST_BYTES: Final = 16
_DIRTY: Final = 2_000
"""Superfluous records after which a compacted partition is compacted."""


class NoSuchPartitionError(SwitchgearError):
    """The topic or partition doesn't exist."""


class MemoryLog:
    """Append-only partitions with the broker's time on every record (``LogAppendTime``). Not thread-safe.

    Args:
        clock: Returns the broker's time in seconds since 1970. Within a partition the time of records never decreases.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._partitions: dict[tuple[str, int], list[Message]] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._counts: dict[str, int] = {}
        self._compact_at: dict[tuple[str, int], int] = {}
        self._digest = blake2b(digest_size=_DIGEST_BYTES)
        self.committed: dict[tuple[str, int], int] = {}
        """The next offset of the workers' group by topic and partition. Without an entry: the start."""

    def create(self, topic: str, partitions: int, *, compact: bool = False) -> None:
        """Create a topic, unless it exists. A compacted topic keeps at least the newest record of every key."""
        if self._counts.setdefault(topic, partitions) == partitions:
            for number in range(partitions):
                self._partitions.setdefault((topic, number), [])
                self._ends.setdefault((topic, number), 0)
                if compact:
                    self._compact_at.setdefault((topic, number), _DIRTY)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, 0 if it doesn't exist."""
        return self._counts.get(topic, 0)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> Message:
        """Append one record, by default to the partition that Kafka's partitioner chooses for the key.

        Raises:
            NoSuchPartitionError: The topic or partition doesn't exist.
        """
        number = owner_partition((key or b"").decode(), self.partitions(topic) or 1) if partition is None else partition
        records = self._of(topic, number)
        at = int(self._clock() * 1000)
        if records and records[-1].timestamp > at:
            at = records[-1].timestamp
        message = Message(topic, number, self._ends[topic, number], at, key, value, headers)
        records.append(message)
        self._ends[topic, number] += 1
        if len(records) >= self._compact_at.get((topic, number), len(records) + 1):
            self._compact(topic, number)
        self._digest.update(b"%b:%d:%d:%d:" % (topic.encode(), number, message.offset, at))
        self._digest.update(value or b"")
        return message

    def read(self, topic: str, partition: int, offset: int, most: int | None = None) -> list[Message]:
        """Return up to ``most`` records from ``offset`` on. Retention and compaction may have removed some.

        Raises:
            NoSuchPartitionError: The topic or partition doesn't exist.
        """
        records = self._of(topic, partition)
        first = bisect_left(records, offset, key=attrgetter("offset"))
        return records[first:] if most is None else records[first : first + most]

    def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record."""
        self._of(topic, partition)
        return self._ends[topic, partition]

    def forget_before(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records below ``offset``, as retention does. The others keep their offsets."""
        records = self._of(topic, partition)
        del records[: bisect_left(records, offset, key=attrgetter("offset"))]

    def compacted(self, topic: str) -> dict[bytes, Message]:
        """Return the newest record of every key, without keys whose newest record has no value."""
        newest: dict[bytes, Message] = {}
        for number in range(self.partitions(topic)):
            for message in self._of(topic, number):
                if message.key is None:
                    continue
                if message.value is None:
                    newest.pop(message.key, None)
                else:
                    newest[message.key] = message
        return newest

    def digest(self) -> str:
        """Return a hash of everything ever appended, with offsets and times. Equal logs have equal digests."""
        return self._digest.hexdigest()

    def _compact(self, topic: str, partition: int) -> None:
        records = self._partitions[topic, partition]
        newest = {message.key: message.offset for message in records}
        records[:] = [message for message in records if newest[message.key] == message.offset]
        self._compact_at[topic, partition] = 2 * len(records) + _DIRTY

    def _of(self, topic: str, partition: int) -> list[Message]:
        try:
            return self._partitions[topic, partition]
        except KeyError:
            known = ", ".join(f"{name} ({count})" for name, count in sorted(self._counts.items())) or "none"
            raise NoSuchPartitionError(
                f"The topic {topic} has no partition {partition}.", hint=f"Topics and their partitions: {known}."
            ) from None
