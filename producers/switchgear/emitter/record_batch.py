"""Records on their way to Kafka, in batches of one tool, and the queue of a partition."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.headers import RESENT

_RESENT_HEADERS: Final = [(RESENT, b"1")]
_NO_HEADERS: Final[list[tuple[str, bytes]]] = []

Answer = Callable[[str | None], None]
"""Called once with None when the record is acknowledged, or with the reason why it was refused, or :data:`STOPPED`."""


class RunAnswer(ABC):
    """The answer of a batch of several records. If the batch is split, each part has an answer of its own."""

    @property
    def given_up(self) -> bool:
        """Whether the one who waits for it has given up, and may have sent the records in another way."""
        return False

    @abstractmethod
    def __call__(self, reason: str | None) -> None:
        """Take the result of all records of the batch."""

    @abstractmethod
    def part(self, first: int, count: int) -> Answer:
        """Return the answer of ``count`` records from the place ``first`` on. It replaces this answer."""


STOPPED: Final = "the emitter was stopped before Kafka acknowledged it"


class RecordBatch(msgspec.Struct, eq=False):
    """Encoded events of one tool, oldest first, at least one.

    Nearly all events are successes that nothing waits for, so they stay together. A record with a failure of its own is a batch of one
    (see :func:`singles`).

    Attributes:
        tool: The tool, which is the key of the records.
        values: The encoded events.
        answer: Called with the result. In a batch of several records it is a :class:`RunAnswer`.
        resent: Kafka may have the records already.
    """

    tool: str
    values: list[bytes]
    answer: Answer | None = None
    resent: bool = False

    @property
    def value(self) -> bytes:
        """The event of a batch of one."""
        return self.values[0]


def check_record(number: int, tool: object, value: object) -> None:
    """Check that Kafka can take the submitted record with this number.

    Raises:
        SwitchgearError: The record can't be sent.
    """
    if isinstance(tool, str) and isinstance(value, bytes):
        with contextlib.suppress(UnicodeEncodeError):
            tool.encode()
            return
    raise SwitchgearError(
        f"Record {number} is ({tool!r:.200}, {type(value).__name__}).",
        hint="Give a tool's name that UTF-8 can encode, and the encoded bytes.",
    )


def total(batches: Iterable[RecordBatch]) -> int:
    """Return the number of records."""
    return sum(len(each.values) for each in batches)


def singles(batches: Iterable[RecordBatch]) -> list[RecordBatch]:
    """Split batches into batches of one, in the same order. A batch of one stays the same object."""
    found: list[RecordBatch] = []
    for each in batches:
        if len(each.values) == 1:
            found.append(each)
        else:
            found += [
                RecordBatch(each.tool, [value], _part(each.answer, place, 1), each.resent)
                for place, value in enumerate(each.values)
            ]
    return found


def _given_up(answer: Answer | None) -> bool:
    return getattr(
        answer, "given_up", False
    )  # a RunAnswer has it; isinstance() of an abstract class takes ten times as long


def _part(answer: Answer | None, first: int, count: int) -> Answer | None:
    return answer.part(first, count) if isinstance(answer, RunAnswer) else None


class PartitionQueue:
    """A partition's waiting records, oldest first. One Kafka batch is in flight at a time."""

    __slots__ = ("answered", "attempts", "busy", "in_flight", "offered", "one_by_one", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[RecordBatch] = deque()
        self.in_flight: list[RecordBatch] = []
        self.busy = False
        self.one_by_one = 0
        """Records of a refused Kafka batch that are sent alone."""
        self.attempts = 0
        self.offered = 0
        """Records added since the start."""
        self.answered = 0
        """Records acknowledged, refused, or moved to another queue, since the start."""

    def add(self, batch: RecordBatch) -> None:
        """Add records at the end."""
        self.waiting.append(batch)
        self.offered += len(batch.values)


class Mark(NamedTuple):
    """What had been added to each queue at one moment."""

    queues: list[tuple[PartitionQueue, int]]

    @property
    def answered(self) -> bool:
        """Whether all of it has its answer."""
        return all(queue.answered >= offered for queue, offered in self.queues)


def fill(kafka_batch: Any, queue: deque[RecordBatch], timestamp_ms: int, *, most: int) -> list[RecordBatch]:
    """Move records from the head of ``queue`` into a Kafka batch until it is full. At least one goes.

    Args:
        kafka_batch: A fresh one from ``create_batch``.
        queue: Oldest first, not empty. What does not fit stays at its head.
        timestamp_ms: Time of the records, in milliseconds since 1970.
        most: Most records to move, at least 1.
    """
    append = kafka_batch.append
    filled: list[RecordBatch] = []
    size = 0
    while queue and size < most and not kafka_batch.closed():  # the first record that does not fit closes it
        batch = queue.popleft()
        key = batch.tool.encode()
        headers = _RESENT_HEADERS if batch.resent or _given_up(batch.answer) else _NO_HEADERS
        went = 0
        for value in batch.values[: most - size]:
            if append(key=key, value=value, timestamp=timestamp_ms, headers=headers) is None:
                break
            went += 1
        size += went
        rest = batch.values[went:]
        if went and rest:
            filled.append(RecordBatch(batch.tool, batch.values[:went], _part(batch.answer, 0, went), batch.resent))
            batch = RecordBatch(batch.tool, rest, _part(batch.answer, went, len(rest)), batch.resent)
        if rest:
            queue.appendleft(batch)
        else:
            filled.append(batch)
    return filled
