"""Encoding of events: adds missing ids and times, and takes secrets out."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

import msgspec

from switchgear.emitter.buffer import Item, Succeeded
from switchgear.emitter.event import Event
from switchgear.emitter.record_batch import RecordBatch
from switchgear.redaction import redact
from switchgear_schemas.ids import IDS_IN_RUN, metric_id_run, mint_metric_id
from switchgear_schemas.wire import decode_execution

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_SUCCEEDED: Final = 5
"""Length of a :data:`Succeeded`. An event's item has two parts."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_LAST: Final = 0.999_999_5
"""The last instant of a second. Sums of two clocks are off by a fraction of a microsecond, and must not reach the next second."""


def encode_items(
    items: Sequence[Item],
    *,
    emitter_id: str,
    service: str,
    clock_offset: float,
    failed: Callable[[Exception], None],
) -> list[RecordBatch]:
    """Encode items, in the order of each tool.

    Args:
        items: Events and plain successes.
        emitter_id: For events that have none.
        service: The same.
        clock_offset: Seconds to add to the monotonic clock, which alone a plain success reads.
        failed: Called with the error of an item that can't be encoded. The item is left out.
    """
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


class _Digits(NamedTuple):
    """Formatted numbers. Looking them up is much faster than formatting."""

    whole: tuple[bytes, ...]
    """0 to 999."""
    three: tuple[bytes, ...]
    """000 to 999."""
    after_point: tuple[bytes, ...]
    """.000 to .999."""


@functools.cache
def _digits() -> _Digits:
    return _Digits(*(tuple(form % number for number in range(1000)) for form in (b"%d", b"%03d", b".%03d")))


def encode_successes(
    items: Sequence[Succeeded], *, emitter_id: str, service: str, clock_offset: float
) -> list[RecordBatch]:
    """Encode plain successes, one batch per tool, in the order of each tool. Durations are rounded to microseconds.

    Nearly all events are plain successes. Their ids are made in one go, and each event is joined from parts, most of which are made once.
    This takes a third of the time of :func:`encode_event`.
    """
    parts = _parts(items, emitter_id, service)
    values: list[bytes] = []
    for begin in range(0, len(items), IDS_IN_RUN):
        for calls, second, base in _by_second(items[begin : begin + IDS_IN_RUN], clock_offset):
            values += _values(calls, parts, second, base)
    if len(parts.heads) == 1:
        return [RecordBatch(items[0][0], values)]
    runs: defaultdict[str, list[bytes]] = defaultdict(list)
    for item, value in zip(items, values, strict=True):
        runs[item[0]].append(value)
    return [RecordBatch(tool, each) for tool, each in runs.items()]


def _by_second(calls: Sequence[Succeeded], offset: float) -> Iterator[tuple[Sequence[Succeeded], int, float]]:
    """Group neighbours that ended in the same second.

    Yields:
        The calls, the second since 1970, and the start of that second by the monotonic clock.
    """
    ends = [call[2] for call in calls]
    if math.floor(min(ends) + offset) == math.floor(max(ends) + offset):  # the usual case
        runs = [calls]
    else:
        runs = [list(run) for _, run in groupby(calls, lambda call: math.floor(call[2] + offset))]
    for run in runs:
        last = max(call[2] for call in run)
        second = math.floor(last + offset)
        yield run, second, max(second - offset, last - _LAST)


def _values(calls: Sequence[Succeeded], parts: _Parts, second: int, base: float) -> list[bytes]:
    """Encode at most :data:`IDS_IN_RUN` calls that ended in the second that began at ``base``."""
    join, (whole, three, after_point) = b"".join, _digits()
    start, endings = metric_id_run()
    heads, tails = parts.heads, parts.tails
    identities = {generation: middle + start for generation, middle in parts.middles.items()}
    at = parts.before_time + datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.").encode()
    return [
        join(
            (
                heads[tool],
                whole[took // 1000]
                if (took := int((ended - began) * 1e6 + 0.5)) < 1_000_000
                else b"%d" % (took // 1000),
                after_point[took % 1000],
                identities[generation],
                ending,
                at,
                three[(micros := int((ended - base) * 1e6)) // 1000],
                three[micros % 1000],
                tails[of_family],
            )
        )
        for (tool, began, ended, generation, of_family), ending in zip(calls, endings, strict=False)
    ]


class _Parts(NamedTuple):
    """What plain successes have in common, encoded."""

    heads: dict[str, bytes]
    """By tool, what is before the duration."""
    middles: dict[int | None, bytes]
    """By generation, what is between the duration and the id."""
    before_time: bytes
    """What is between the id and the time."""
    tails: dict[int | None, bytes]
    """By the family's generation, what is after the time."""


def _parts(items: Sequence[Succeeded], emitter_id: str, service: str) -> _Parts:
    """Cut encoded events at their duration, id and time. The keys can't be in a text, whose quotes are escaped."""
    heads: dict[str, bytes] = {}
    middles: dict[int | None, bytes] = {}
    tails: dict[int | None, bytes] = {}
    before_time = b""
    for tool, generation, of_family in {(item[0], item[3], item[4]) for item in items}:
        if tool in heads and generation in middles and of_family in tails:
            continue
        event = Event(tool, "success", 0.5, generation, metric_id="", recorded_at=_EPOCH, family_generation=of_family)
        event.emitter_id, event.service = emitter_id, service
        head, duration, rest = _encode(event).partition(b'"execution_time_ms":')
        middle, identity, rest = rest.removeprefix(b"0.5").partition(b'"metric_id":"')
        before, time, tail = rest.partition(b'"recorded_at":"')
        heads[tool], middles[generation], before_time = head + duration, middle + identity, before + time
        tails[of_family] = tail.removeprefix(b"1970-01-01T00:00:00")
    return _Parts(heads, middles, before_time, tails)
