"""Filling a batch for Kafka: what aiokafka's ``BatchBuilder.append`` does, without what it does for each record anew.

That method spends 0.38 of its 0.56 µs around the encoder, which is compiled (measured, aiokafka 0.14): it serializes with
serializers we have not, and makes an argument list by names. So the encoder is called here, and the builder told at the end.
Both names are private to aiokafka, whose version is pinned; ``test_batch.py`` holds the bytes to those of the public way.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from switchgear_schemas.headers import RESENT

if TYPE_CHECKING:
    from switchgear.emitter.outbox import Record

_AT_ONCE: Final = 4_096
"""More records than a batch of the usual size has room for."""
_MARKED: Final = [(RESENT, b"1")]
_UNMARKED: Final[list[tuple[str, bytes]]] = []


def fill(batch: Any, queue: deque[Record], timestamp_ms: int, *, most: int) -> list[Record]:
    """Move records from the head of ``queue`` into ``batch`` until it is full, at most ``most``; at least one goes.

    Args:
        batch: fresh from ``create_batch``.
        queue: oldest first, not empty.
        timestamp_ms: of the records, in milliseconds since 1970.
        most: how many.

    Returns:
        The records that are in the batch, in its order.
    """
    append, take = batch._builder.append, queue.popleft  # noqa: SLF001 - see above
    records = list(islice(queue, min(most, _AT_ONCE)))
    tool, key = "", b""
    for offset, record in enumerate(records):
        if record.tool is not tool:  # runs of one tool share its name
            tool = record.tool
            key = tool.encode()
        headers = _MARKED if record.marked else _UNMARKED
        if append(offset, timestamp_ms, key, record.value, headers) is None:
            batch.close()
            del records[offset:]
            break
    for _ in records:
        take()
    batch._relative_offset = len(records)  # noqa: SLF001 - see above
    return records
