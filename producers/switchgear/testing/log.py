"""Topics of Kafka in memory, as far as Switchgear uses them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter

from switchgear.fleet import Message
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.partitioner import partition_of


class NoSuchPartitionError(SwitchgearError):
    """The topic or partition doesn't exist."""


class MemoryLog:
    """Append-only partitions with the broker's time on every record (``LogAppendTime``). Not thread-safe.

    Args:
        clock: Returns the broker's time in seconds since 1970. Within a partition the time of records never decreases.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._topics: dict[str, list[list[Message]]] = {}
        self.committed: dict[tuple[str, int], int] = {}
        """The next offset of the workers' group by topic and partition. Without an entry: the start."""

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic, unless it exists."""
        self._topics.setdefault(topic, [[] for _ in range(partitions)])

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
        records = self.records(topic, number)
        at = int(self._clock() * 1000)
        if records:
            at = max(at, records[-1].timestamp)
        message = Message(topic, number, self.end(topic, number), at, key, value, headers)
        records.append(message)
        return message

    def read(self, topic: str, partition: int, offset: int, most: int | None = None) -> list[Message]:
        """Return up to ``most`` records from ``offset`` on.

        Raises:
            NoSuchPartitionError: The topic or partition doesn't exist.
        """
        records = self.records(topic, partition)
        first = bisect_left(records, offset, key=attrgetter("offset"))
        return records[first:] if most is None else records[first : first + most]

    def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record."""
        records = self.records(topic, partition)
        return records[-1].offset + 1 if records else 0

    def compacted(self, topic: str) -> dict[bytes, Message]:
        """Return the newest record of every key, without keys whose newest record has no value."""
        newest = {
            message.key: message
            for number in range(self.partitions(topic))
            for message in self.records(topic, number)
            if message.key is not None
        }
        return {key: message for key, message in newest.items() if message.value is not None}

    def records(self, topic: str, partition: int) -> list[Message]:
        """Return the list that holds the records of a partition.

        Raises:
            NoSuchPartitionError: The topic or partition doesn't exist.
        """
        if not 0 <= partition < self.partitions(topic):
            known = ", ".join(f"{name} ({len(found)})" for name, found in sorted(self._topics.items())) or "none"
            raise NoSuchPartitionError(
                f"The topic {topic} has no partition {partition}.", hint=f"Topics and their partitions: {known}."
            )
        return self._topics[topic][partition]
