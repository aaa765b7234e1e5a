"""Encoding of events: adds missing ids and times, and takes secrets out."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from switchgear.emitter.buffer import Item, Succeeded
from switchgear.emitter.clock_offset import ClockOffset
from switchgear.emitter.event import Event
from switchgear.emitter.record_batch import RecordBatch
from switchgear.emitter.success_template import encode_successes
from switchgear.redaction import redact
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.wire import decode_execution

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_SUCCEEDED: Final = 4
"""Length of a :data:`Succeeded`. An event's item has two parts."""


def encode_items(
    items: Sequence[Item],
    *,
    emitter_id: str,
    service: str,
    clock_offset: ClockOffset,
    failed: Callable[[Exception], None],
) -> list[RecordBatch]:
    """Encode items, in the order of each tool. Call ``failed`` with the error of an item that can't be encoded, and leave it out."""
    together = functools.partial(encode_successes, emitter_id=emitter_id, service=service, clock_offset=clock_offset)
    if sum(map(len, items)) == _SUCCEEDED * len(items):  # the usual case
        return together(cast("Sequence[Succeeded]", items))
    found: list[RecordBatch] = []
    waiting: defaultdict[str, list[Succeeded]] = defaultdict(list)
    for item in items:
        if len(item) == _SUCCEEDED:
            waiting[item[0]].append(item)
            continue
        try:
            record = _encode_single(*item, emitter_id=emitter_id, service=service)
        except Exception as error:  # noqa: BLE001 - a user's object may fail in any way, and must not stop the others
            failed(error)
            continue
        if earlier := waiting.pop(record.tool, None):
            found += together(earlier)
        found.append(record)
    for earlier in waiting.values():
        found += together(earlier)
    return found


def _encode_single(event: Event | dict[str, Any], ended_at: float, *, emitter_id: str, service: str) -> RecordBatch:
    if isinstance(event, Event):
        return RecordBatch(event.tool_name, [encode_event(event, ended_at, emitter_id=emitter_id, service=service)])
    tool, value = encode_fields(event, ended_at, emitter_id=emitter_id, service=service)
    return RecordBatch(tool, [value])


def encode_event(event: Event, ended_at: float, *, emitter_id: str, service: str) -> bytes:
    """Encode the guard's own event.

    A failure must count whatever its text is. Characters that UTF-8 can't encode, such as half of a surrogate pair, become question
    marks. Metadata that JSON can't hold are replaced by the reason.

    Args:
        event: The event. Missing ids and times are set in it.
        ended_at: Seconds since 1970, by this machine's clock.
        emitter_id: Set if the event has none.
        service: Set if the event has none.

    Raises:
        AttributeError, ValueError: The tool's name is not valid text.
    """
    event.tool_name.encode()
    if event.metric_id is None:
        event.metric_id = mint_metric_id()
    if event.recorded_at is None:
        event.recorded_at = datetime.fromtimestamp(ended_at, UTC)
    if not event.emitter_id:
        event.emitter_id = emitter_id
    if not event.service:
        event.service = service
    if event.error_message is not None:
        event.error_message = redact(event.error_message)
    try:
        return _encode(event)
    except Exception:  # noqa: BLE001 - metadata are a user's objects
        return _encode(_encodable(event))


def _encodable(event: Event) -> Event:
    fields: dict[str, Any] = msgspec.structs.asdict(event)
    clean: dict[str, Any] = {name: _text(value) if isinstance(value, str) else value for name, value in fields.items()}
    try:
        _encode(clean["metadata"])
    except Exception as error:  # noqa: BLE001 - see above
        clean["metadata"] = {"switchgear.metadata": f"left out: {type(error).__name__}: {_text(str(error))[:200]}"}
    return Event(**clean)


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


def encode_fields(fields: dict[str, Any], ended_at: float, *, emitter_id: str, service: str) -> tuple[str, bytes]:
    """Encode and check a user's event. Unknown fields are kept.

    Returns:
        The tool's name, and the encoded event.

    Raises:
        InvalidExecutionError: It is not an execution. The error names the field.
        msgspec.EncodeError, TypeError, ValueError: It has a value that JSON can't hold.
    """
    completed = {
        "metric_id": mint_metric_id(),
        "recorded_at": datetime.fromtimestamp(ended_at, UTC),
        "emitter_id": emitter_id,
        "service": service,
        **{name: value for name, value in fields.items() if value is not None},
    }
    message = completed.get("error_message")
    if isinstance(message, str):
        completed["error_message"] = redact(message)
    value = _encode(completed)
    return decode_execution(value).tool_name, value
