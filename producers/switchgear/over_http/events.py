"""Server-sent events, as the HTML standard defines them (9.2.6)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from switchgear_schemas.errors import SwitchgearError

MOST_BYTES: Final = 256 * 1_048_576
"""Of one event. A snapshot of 50,000 circuits has about 25 MB."""
_ENDS: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")


class EventTooLargeError(SwitchgearError):
    """The other side sends no end of an event."""


class ServerEvent(NamedTuple):
    """One event. ``last_id`` is the last id that the stream has named so far."""

    kind: str
    data: bytes
    last_id: str


async def server_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    """Yield the events of a response's body.

    Raises:
        EventTooLargeError: One event has more than :data:`MOST_BYTES`.
    """
    parts: list[bytes] = []
    size = 0
    kind, last_id, data = "", "", list[bytes]()
    async for chunk in chunks:
        size += len(chunk)
        if size > MOST_BYTES:
            raise EventTooLargeError(f"an event has more than {MOST_BYTES:,} bytes")
        parts.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and not (len(parts) > 1 and parts[-2].endswith(b"\r")):
            continue
        *lines, rest = _ENDS.split(b"".join(parts))
        parts = [rest] if rest else []
        for line in lines:
            if not line:
                if data:
                    yield ServerEvent(kind or "message", b"\n".join(data), last_id)
                kind, data, size = "", [], len(rest)
                continue
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                kind = value.decode(errors="replace")
            elif name == b"id" and b"\0" not in value:
                last_id = value.decode(errors="replace")
