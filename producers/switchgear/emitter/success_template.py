"""Encoding of many plain successes at once. Nearly all events are plain successes.

The ids are made in one go, and each event is joined from parts, most of which are made once. This takes a fifth of the time of
:func:`~switchgear.emitter.encode.encode_event`. A test compares the results.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from switchgear.emitter.buffer import Succeeded
from switchgear.emitter.clock_offset import ClockOffset
from switchgear.emitter.record_batch import RecordBatch
from switchgear_schemas.ids import IDS_IN_RUN, metric_id_run

_encode: Final = msgspec.json.Encoder().encode
_LAST: Final = 0.999_999_5
"""The last instant of a second. Sums of two clocks are off by a fraction of a microsecond, and must not reach the next second."""


class _Digits(NamedTuple):
    """Formatted numbers. Looking them up is much faster than formatting."""

    whole: tuple[bytes, ...]
    """0 to 999."""
    three: tuple[bytes, ...]
    """000 to 999."""
    after_point: tuple[bytes, ...]
    """.000 to .999."""


@cache
def _digits() -> _Digits:
    return _Digits(*(tuple(form % number for number in range(1000)) for form in (b"%d", b"%03d", b".%03d")))


def encode_successes(
    items: Sequence[Succeeded], *, emitter_id: str, service: str, clock_offset: ClockOffset
) -> list[RecordBatch]:
    """Encode plain successes, one batch per tool, in the order of each tool. Durations are rounded to microseconds."""
    heads = {tool: _head(tool) for tool in {tool for tool, _, _, _ in items}}
    tails = {each: _tail(emitter_id, each, service) for each in {generation for _, _, _, generation in items}}
    values: list[bytes] = []
    for begin in range(0, len(items), IDS_IN_RUN):
        for calls, second, offset in _by_second(items[begin : begin + IDS_IN_RUN], clock_offset):
            values += _values(calls, heads, tails, second, offset)
    if len(heads) == 1:
        return [RecordBatch(items[0][0], values)]
    runs: defaultdict[str, list[bytes]] = defaultdict(list)
    for (tool, _, _, _), value in zip(items, values, strict=True):
        runs[tool].append(value)
    return [RecordBatch(tool, each) for tool, each in runs.items()]


def _by_second(
    calls: Sequence[Succeeded], clock_offset: ClockOffset
) -> Iterator[tuple[Sequence[Succeeded], int, float]]:
    """Group neighbours that ended in the same second.

    Yields:
        The calls, the second since 1970, and the start of that second by the monotonic clock.
    """
    ends = [ended for _, _, ended, _ in calls]
    first, last = min(ends), max(ends)
    offset = clock_offset.offset_at(first)
    second = math.floor(first + offset)
    if first >= clock_offset.since and last + offset < second + 1:  # the usual case
        yield calls, second, max(second - offset, last - _LAST)
        return

    def place(call: Succeeded) -> tuple[int, float]:
        offset = clock_offset.offset_at(call[2])
        return math.floor(call[2] + offset), offset

    for (second, offset), stretch in groupby(calls, place):
        together = list(stretch)
        yield together, second, max(second - offset, max(ended for _, _, ended, _ in together) - _LAST)


def _values(
    calls: Sequence[Succeeded], heads: dict[str, bytes], tails: dict[int | None, bytes], second: int, base: float
) -> list[bytes]:
    """Encode at most :data:`IDS_IN_RUN` calls that ended in the second that began at ``base``."""
    join, (whole, three, after_point) = b"".join, _digits()
    start, endings = metric_id_run()
    identity = b',"metric_id":"%b' % start
    at = datetime.fromtimestamp(second, UTC).strftime('","recorded_at":"%Y-%m-%dT%H:%M:%S.').encode()
    return [
        join(
            (
                heads[tool],
                whole[took // 1000]
                if (took := int((ended - began) * 1e6 + 0.5)) < 1_000_000
                else b"%d" % (took // 1000),
                after_point[took % 1000],
                identity,
                ending,
                at,
                three[(micros := int((ended - base) * 1e6)) // 1000],
                three[micros % 1000],
                tails[generation],
            )
        )
        for (tool, began, ended, generation), ending in zip(calls, endings, strict=False)
    ]


def _head(tool: str) -> bytes:
    return b'{"tool_name":%b,"status":"success","execution_time_ms":' % _encode(tool)


def _tail(emitter_id: str, generation: int | None, service: str) -> bytes:
    rest = {"emitter_id": emitter_id, "generation": generation, "service": service or None}
    return b'Z",' + _encode({name: value for name, value in rest.items() if value is not None})[1:]
