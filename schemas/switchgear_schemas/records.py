"""What must hold of a record in Kafka beside its value. The worker and the sink refuse the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from switchgear_schemas.enums import LATEST
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.headers import UNREADABLE

LATEST_MS: Final = int(LATEST.timestamp() * 1000)


class KafkaRecord(Protocol):
    """What is looked at of aiokafka's ``ConsumerRecord``."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
        ...

    @property
    def value(self) -> bytes | None:
        """None: a tombstone, or a placeholder."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]] | Sequence[tuple[str, bytes]]:
        """Kafka lets a header have no value."""
        ...


def unreadable(record: KafkaRecord) -> str | None:
    """Why ``record`` stands in the place of one that can't be read; None for any other record."""
    if record.value is not None or not record.headers:
        return None
    return next((raw.decode(errors="replace") for name, raw in record.headers if name == UNREADABLE and raw), None)


def check_readable(record: KafkaRecord) -> None:
    """Refuse what stands in the place of a record that Kafka's client could not read.

    Raises:
        InvalidExecutionError: why it could not.
    """
    why = unreadable(record)
    if why is not None:
        raise InvalidExecutionError("", why)


def check_time(record: KafkaRecord) -> None:
    """Let a record pass whose timestamp can be the broker's: a topic that lost ``LogAppendTime`` has whatever its producers write.

    Raises:
        InvalidExecutionError: the circuit's clock would never come back from there.
    """
    if not 0 <= record.timestamp < LATEST_MS:
        raise InvalidExecutionError(
            "",
            f"the record's timestamp {record.timestamp} ms is not between 1970 and {LATEST.year}: "
            "set message.timestamp.type=LogAppendTime on the topic",
        )
