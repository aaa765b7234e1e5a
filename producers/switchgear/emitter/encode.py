"""From an event to the bytes of its record: identity and clock minted where absent, secrets taken out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from switchgear.emitter.buffer import Item, Succeeded
from switchgear.emitter.event import Event
from switchgear.emitter.moments import Moments
from switchgear.redact import redact
from switchgear_schemas.ids import mint_metric_id, mint_metric_ids
from switchgear_schemas.wire import decode_execution

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
_SUCCEEDED: Final = 4
"""Parts of a :data:`Succeeded`; an event has two."""
_encode_success: Final = msgspec.json.Encoder().encode


@cache
def _three_digits() -> tuple[list[str], list[str]]:
    """000 to 999, and the same as the end of an instant: a look-up takes a tenth of what formatting does."""
    digits = [f"{number:03d}" for number in range(1000)]
    return digits, [f"{three}Z" for three in digits]


class _Success(msgspec.Struct, omit_defaults=True, gc=False):
    """The fields that a plain success has, with :class:`Event`'s names: a quarter of the time to make and to encode."""

    tool_name: str
    status: str
    execution_time_ms: float
    metric_id: str
    emitter_id: str
    recorded_at: str
    generation: int | None = None
    service: str = ""


def encode_successes(items: Sequence[Succeeded], *, emitter_id: str, service: str, moments: Moments) -> list[bytes]:
    """Encode plain successes, many at once, in their order.

    Half of what :func:`encode_event` takes for each (measured): ids are minted as a run, and an instant is put together
    from parts.
    """
    three, ending = _three_digits()
    since, encode = moments.since, _encode_success
    base, second, holds = 0.0, "", False  # the start of a second, by the monotonic clock, and how it is written
    found: list[bytes] = []
    append = found.append
    for (tool, began, ended, generation), metric_id in zip(items, mint_metric_ids(len(items)), strict=True):
        micros = int((ended - base) * 1_000_000)
        if not (holds and 0 <= micros < 1_000_000 and ended >= since):
            holds = ended >= since
            offset = moments.offset_at(ended)
            at = math.floor(ended + offset)
            second = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
            base = at - offset
            micros = min(999_999, max(0, int((ended - base) * 1_000_000)))
        moment = second + three[micros // 1000] + ending[micros % 1000]
        append(
            encode(
                _Success(tool, "success", (ended - began) * 1000, metric_id, emitter_id, moment, generation, service)
            )
        )
    return found


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
    found: list[T] = []
    run: list[Succeeded] = []

    def end_run() -> None:
        lines = encode_successes(run, emitter_id=emitter_id, service=service, moments=moments)
        found.extend(map(make, [each[0] for each in run], lines))
        run.clear()

    for item in items:
        if len(item) == _SUCCEEDED:
            run.append(item)
            continue
        if run:
            end_run()
        event, ended_at = item
        try:
            if isinstance(event, Event):
                value = encode_event(event, ended_at, emitter_id=emitter_id, service=service)
                found.append(make(event.tool_name, value))
            else:
                found.append(make(*encode_fields(event, ended_at, emitter_id=emitter_id, service=service)))
        except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the others must go
            failed(error)
    if run:
        end_run()
    return found


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
