"""Where a message comes from: its own place in the log, or, for a copy sent on to its owner, the original's."""

from __future__ import annotations

import re
from typing import Final

from switchgear.fleet.log import LogRecord
from switchgear_schemas import DeadLetter, InvalidExecutionError
from switchgear_schemas.headers import REKEYED

COMPONENT: Final = "worker"
_NUMBER: Final = re.compile(rb"[0-9]{1,18}").fullmatch
"""An offset that fits 64 bits."""


def origin_of(record: LogRecord, partitions: int) -> tuple[int, int]:
    """Partition and offset of the original, one of ``partitions``: a row keeps a number for each that it has seen.

    Raises:
        InvalidExecutionError: the header that names them is not ``partition:offset``, or there is no such partition.
    """
    for name, value in record.headers:
        if name == REKEYED:
            place = value or b""  # Kafka lets a header have none
            partition, colon, offset = place.partition(b":")
            if not (colon and _NUMBER(partition) and _NUMBER(offset) and int(partition) < partitions):
                raise InvalidExecutionError("", f"the header {REKEYED} must be partition:offset, got {place[:40]!r}")
            return int(partition), int(offset)
    return record.partition, record.offset


def dead_letter(record: LogRecord, field: str, reason: str) -> DeadLetter:
    """A message that can't be folded, with its reason; it fits the topic of the dead letters."""
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        reason=reason,
        component=COMPONENT,
        field=field,
        original_key=record.key,
        value=record.value,
    ).fitted()
