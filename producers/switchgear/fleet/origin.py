"""Where a message comes from: its own place in the log, or, for a copy sent on to its owner, the original's."""

from __future__ import annotations

from typing import Final

from switchgear.fleet.log import LogRecord
from switchgear_schemas import DeadLetter, InvalidExecutionError
from switchgear_schemas.headers import REKEYED

COMPONENT: Final = "worker"


def origin_of(record: LogRecord) -> tuple[int, int]:
    """Partition and offset of the original.

    Raises:
        InvalidExecutionError: the header that names them is not ``partition:offset``.
    """
    for name, value in record.headers:
        if name == REKEYED:
            partition, colon, offset = value.partition(b":")
            if not (colon and partition.isdigit() and offset.isdigit()):
                raise InvalidExecutionError("", f"the header {REKEYED} must be partition:offset, got {value[:40]!r}")
            return int(partition), int(offset)
    return record.partition, record.offset


def dead_letter(record: LogRecord, field: str, reason: str) -> DeadLetter:
    """A message that can't be folded, with its reason."""
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
    )
