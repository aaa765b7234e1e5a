"""Topics of Kafka in memory, as far as Switchgear uses them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from switchgear.fleet import Message
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.partitioner import partition_of

_DIRTY: Final = 2_000
"""Superfluous records after which a compacted partition is compacted."""


class NoSuchPartitionError(SwitchgearError):
    """The topic or partition doesn't exist."""


@dataclass(slots=True)
class _Partition:
    records: list[Message] = field(default_factory=list)
    end: int = 0
    compact_at: float = float("inf")
    """The number of records at which it is compacted."""

    def index(self, offset: int) -> int:
        """Return the position of the first record from ``offset`` on."""
        return bisect_left(self.records, offset, key=attrgetter("offset"))

    def compact(self) -> None:
        """Keep the newest record of each key."""
        newest = {message.key: message.offset for message in self.records}
        self.records = [message for message in self.records if newest[message.key] == message.offset]
        self.compact_at = 2 * len(self.records) + _DIRTY


class MemoryLog:
    """Append-only partitions with the broker's time on every record (``LogAppendTime``). Not thread-safe.

    Args:
        clock: Returns the broker's time in seconds since 1970. Within a partition the time of records never decreases.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._topics: dict[str, list[_Partition]] = {}
        self.committed: dict[tuple[str, int], int] = {}
        """The next offset of the workers' group by topic and partition. Without an entry: the start."""

    def create(self, topic: str, partitions: int, *, compact: bool = False) -> None:
        """Create a topic, unless it exists. A compacted topic keeps at least the newest record of every key."""
        compact_at = _DIRTY if compact else float("inf")
        self._topics.setdefault(topic, [_Partition(compact_at=compact_at) for _ in range(partitions)])

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic, 0 if it doesn't exist."""
        return len(self._topics.get(topic, ()))

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> Message:
        """Append one record, by default to the partition of the tool that the key names.

        Raises:
            NoSuchPartitionError: The topic or partition doesn't exist.
        """
        number = partition_of((key or b"").decode(), self.partitions(topic) or 1) if partition is None else partition
        found = self._of(topic, number)
        at = int(self._clock() * 1000)
        if found.records:
            at = max(at, found.records[-1].timestamp)
        message = Message(topic, number, found.end, at, key, value, headers)
        found.records.append(message)
        found.end += 1
        if len(found.records) >= found.compact_at:
            found.compact()
        return message

    def read(self, topic: str, partition: int, offset: int, most: int | None = None) -> list[Message]:
        """Return up to ``most`` records from ``offset`` on. Retention and compaction may have removed some.

        Raises:
            NoSuchPartitionError: The topic or partition doesn't exist.
        """
        found = self._of(topic, partition)
        first = found.index(offset)
        return found.records[first:] if most is None else found.records[first : first + most]

    def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record."""
        return self._of(topic, partition).end

    def forget_before(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records below ``offset``, as retention does. The others keep their offsets."""
        found = self._of(topic, partition)
        del found.records[: found.index(offset)]

    def compacted(self, topic: str) -> dict[bytes, Message]:
        """Return the newest record of every key, without keys whose newest record has no value."""
        newest = {
            message.key: message
            for number in range(self.partitions(topic))
            for message in self._of(topic, number).records
            if message.key is not None
        }
        return {key: message for key, message in newest.items() if message.value is not None}

    def _of(self, topic: str, partition: int) -> _Partition:
        if not 0 <= partition < self.partitions(topic):
            known = ", ".join(f"{name} ({len(found)})" for name, found in sorted(self._topics.items())) or "none"
            raise NoSuchPartitionError(
                f"The topic {topic} has no partition {partition}.", hint=f"Topics and their partitions: {known}."
            )
        return self._topics[topic][partition]
