"""From an event to the bytes of its record: identity and clock minted where absent, secrets taken out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from typing import Any, Final, TypeVar, cast

import msgspec

from switchgear.emitter.buffer import Item, Succeeded
from switchgear.emitter.event import Event
from switchgear.emitter.moments import Moments
from switchgear.redact import redact
from switchgear_schemas.ids import metric_id_run, mint_metric_id
from switchgear_schemas.wire import decode_execution

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_SUCCEEDED: Final = 4
"""Parts of a :data:`Succeeded`; an event has two."""


@cache
def _three_digits() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """000 to 999, and 0 to 999: a look-up takes a tenth of what formatting does."""
    return tuple(f"{number:03d}" for number in range(1000)), tuple(map(str, range(1000)))


def encode_successes(items: Sequence[Succeeded], *, emitter_id: str, service: str, moments: Moments) -> list[bytes]:
    """Encode plain successes, many at once, in their order; durations rounded to microseconds.

    A quarter of what :func:`encode_event` takes for each (measured): ids are minted as a run, and the text is put together from
    parts, of which all but the numbers are made once.
    """
    three, whole = _three_digits()
    since = moments.since
    base, second, holds = 0.0, "", False  # the start of a second, by the monotonic clock, and how it is written
    heads: dict[str, str] = {}
    tails: dict[int | None, str] = {}
    found: list[bytes] = []
    append = found.append
    start, endings = metric_id_run()
    if len(items) > len(endings):
        parts = (items[: len(endings)], items[len(endings) :])
        return [
            value
            for part in parts
            for value in encode_successes(part, emitter_id=emitter_id, service=service, moments=moments)
        ]
    for (tool, began, ended, generation), ending in zip(items, endings, strict=False):
        micros = int((ended - base) * 1_000_000)
        if not (holds and 0 <= micros < 1_000_000 and ended >= since):
            holds = ended >= since
            offset = moments.offset_at(ended)
            at = math.floor(ended + offset)
            second = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
            base = at - offset
            micros = min(999_999, max(0, int((ended - base) * 1_000_000)))
        took = int((ended - began) * 1_000_000 + 0.5)
        head = heads.get(tool)
        if head is None:
            head = heads[tool] = f'{{"tool_name":{_text(tool)},"status":"success","execution_time_ms":'
        tail = tails.get(generation)
        if tail is None:
            rest = {"emitter_id": emitter_id, "generation": generation, "service": service or None}
            known = {name: value for name, value in rest.items() if value is not None}
            tail = tails[generation] = f'Z",{_text(known)[1:]}'
        append(
            f'{head}{whole[took // 1000] if took < 1_000_000 else took // 1000}.{three[took % 1000]},"metric_id":"{start}{ending}","recorded_at":"'
            f"{second}{three[micros // 1000]}{three[micros % 1000]}{tail}".encode()
        )
    return found


def _text(value: object) -> str:
    return _encode(value).decode()


def encode_items(
    items: Sequence[Item],
    make: Callable[[str, bytes], T],
    *,
    emitter_id: str,
    service: str,
    moments: Moments,
    failed: Callable[[Exception], None],
) -> list[T]:
    """``make(tool, value)`` of each item, in their order; one that can't be encoded is left out, and ``failed`` told why."""

    def together(run: Sequence[Succeeded]) -> list[T]:
        lines = encode_successes(run, emitter_id=emitter_id, service=service, moments=moments)
        return list(map(make, map(itemgetter(0), run), lines))

    if sum(map(len, items)) == _SUCCEEDED * len(items):  # as a rule
        return together(cast("Sequence[Succeeded]", items))
    found: list[T] = []
    run: list[Succeeded] = []
    for item in items:
        if len(item) == _SUCCEEDED:
            run.append(item)
            continue
        if run:
            found += together(run)
            run.clear()
        event, ended_at = item
        try:
            if isinstance(event, Event):
                value = encode_event(event, ended_at, emitter_id=emitter_id, service=service)
                found.append(make(event.tool_name, value))
            else:
                found.append(make(*encode_fields(event, ended_at, emitter_id=emitter_id, service=service)))
        except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the others must go
            failed(error)
    return found + together(run)


def encode_event(event: Event, ended_at: float, *, emitter_id: str, service: str) -> bytes:
    """Encode the guard's own event; ``ended_at`` in seconds since 1970, by this machine's clock.

    Raises:
        msgspec.EncodeError, TypeError, ValueError: the metadata hold what JSON can't.
    """
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
    return _encode(event)


def encode_fields(fields: dict[str, Any], ended_at: float, *, emitter_id: str, service: str) -> tuple[str, bytes]:
    """Encode and check a user's event; returns its tool name and bytes. Unknown fields are kept.

    Raises:
        InvalidExecutionError: naming the field, where it is not an execution.
        msgspec.EncodeError, TypeError, ValueError: it holds what JSON can't.
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
