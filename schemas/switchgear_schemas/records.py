"""Checks of a Kafka record other than its value. The worker and the sink refuse the same records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from switchgear_schemas.enums import LATEST
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.headers import UNREADABLE

LATEST_MS: Final = int(LATEST.timestamp() * 1000)
AHEAD_S: Final = 60.0
"""How far an emitter's clock may be ahead of the broker's. The sink stores a later time as the broker's."""


class KafkaRecord(Protocol):
    """The part of aiokafka's ``ConsumerRecord`` that the checks read."""

    @property
    def timestamp(self) -> int:
        """The timestamp, in milliseconds since 1970."""
        ...

    @property
    def value(self) -> bytes | None:
        """The value. None for a tombstone or a placeholder."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]] | Sequence[tuple[str, bytes]]:
        """The headers. Kafka permits a header without a value."""
        ...


def unreadable(record: KafkaRecord) -> str | None:
    """Return why ``record`` is a placeholder for one that can't be read; None if it isn't a placeholder."""
    if record.value is not None or not record.headers:
        return None
    return next((raw.decode(errors="replace") for name, raw in record.headers if name == UNREADABLE and raw), None)


def check_readable(record: KafkaRecord) -> None:
    """Refuse a placeholder for a record that the Kafka client could not read.

    Raises:
        InvalidExecutionError: The record is a placeholder. The reason says why.
    """
    why = unreadable(record)
    if why is not None:
        raise InvalidExecutionError("", why)


def check_time(record: KafkaRecord) -> None:
    """Refuse a record whose timestamp can't be the broker's. Without ``LogAppendTime``, a topic has the timestamps of its producers.

    Raises:
        InvalidExecutionError: The timestamp would move the circuit's clock too far ahead.
    """
    if not 0 <= record.timestamp < LATEST_MS:
        raise InvalidExecutionError(
            "",
            f"the record's timestamp {record.timestamp} ms is not between 1970 and {LATEST.year}: "
            "set message.timestamp.type=LogAppendTime on the topic",
        )
