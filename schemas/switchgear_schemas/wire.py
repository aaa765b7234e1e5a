"""Decoding and encoding executions on the hot path, with msgspec instead of pydantic.

The struct names every field, also those that the worker does not use. The worker and the sink therefore refuse the same messages: an
execution is either counted and stored, or a dead letter. The worker skips unknown fields, and the sink keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from switchgear_schemas.enums import EARLIEST, LATEST, MAX_EVENT_BYTES
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.execution_record import Execution
from switchgear_schemas.wire_record import refusal

__all__ = ["Execution", "decode_execution", "decode_valid_executions", "encode"]

_decoder: Final = msgspec.json.Decoder(Execution)


def decode_execution(value: bytes | None) -> Execution:
    """Decode and validate one message of the executions topic.

    Raises:
        InvalidExecutionError: The message isn't a valid execution. The error has the field and the reason.
    """
    if not value:
        raise InvalidExecutionError("", "the message is empty")
    if len(value) > MAX_EVENT_BYTES:
        raise InvalidExecutionError("", f"the message has {len(value)} bytes, more than the {MAX_EVENT_BYTES} allowed")
    try:
        event = _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal(error) from None
    at = event.recorded_at
    if at is not None and not EARLIEST.year < at.year < LATEST.year - 1 and not _is_possible(at):
        aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        raise InvalidExecutionError(
            "recorded_at", f"must lie between {EARLIEST.year} and {LATEST.year}, got {aware.isoformat()}"
        )
    return event


def decode_valid_executions(values: Sequence[bytes]) -> list[Execution] | None:
    """Decode several messages at once, which is faster than one by one.

    Returns:
        An execution for each message, as :func:`decode_execution` returns it. None if a message may not be valid, or has something before
        or after its object: then decode one by one.
    """
    if not values or max(map(len, values)) > MAX_EVENT_BYTES:
        return None
    lines = b"\n".join(values)
    # The decoder ignores where a line ends. But no JSON text has `}` before a line break and `{` after it, except between two objects. So
    # each line has at least one object, and with as many objects as lines it has exactly one.
    ends = len(values) - 1
    if not (lines.startswith(b"{") and lines.endswith(b"}") and lines.count(b"}\n{") == lines.count(b"\n") == ends):
        return None
    try:
        events = _decoder.decode_lines(lines)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(events) != len(values):
        return None
    for event in events:
        at = event.recorded_at
        # In the years between, no time zone matters. Comparing instants takes ten times as long.
        if at is not None and not EARLIEST.year < at.year < LATEST.year - 1 and not _is_possible(at):
            return None
    return events


def _is_possible(at: datetime) -> bool:
    return EARLIEST <= (at if at.tzinfo is not None else at.replace(tzinfo=UTC)) < LATEST


def encode(event: dict[str, Any]) -> bytes:
    """Return ``event`` as compact JSON. Datetimes become RFC 3339."""
    return msgspec.json.encode(event)
