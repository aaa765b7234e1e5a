"""Read the body of a request: within a budget of the process, and without its compression."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.requests import ClientDisconnect, Request

from switchgear_access.problem import ProblemError

MAX_BODY_BYTES: Final = 8 * 1_048_576
"""The largest request as it is sent."""
MAX_UNPACKED_BYTES: Final = 32 * 1_048_576
"""The largest request after unpacking."""
MAX_HELD_BYTES: Final = 96 * 1_048_576
"""Bodies of all requests in progress together."""
_ACCEPTS: Final = {"Accept-Encoding": "gzip"}
_GZIP: Final = 31
"""zlib's window bits for a gzip header."""
_CHUNK: Final = 262_144
_MAX_MEMBERS: Final = 16
_INLINE: Final = 262_144
"""So many bytes are unpacked at once. The rest is unpacked in a thread, so that other requests go on."""


class Held:
    """The bytes that one request holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.count = 0

    def add(self, count: int) -> None:
        """Hold more.

        Raises:
            ProblemError: All requests together would hold too much.
        """
        self._budget.take(count)
        self.count += count


class Budget:
    """Bounds the bytes that requests hold at a time.

    Args:
        most: Bytes of all of them.
    """

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self.held = 0

    def take(self, count: int) -> None:
        """Count bytes.

        Raises:
            ProblemError: There would be too many.
        """
        if self.held + count > self._most:
            raise busy("The gateway has too many large requests in progress.")
        self.held += count

    @contextmanager
    def request(self) -> Iterator[Held]:
        """Count what one request holds while the block runs."""
        held = Held(self)
        try:
            yield held
        finally:
            self.held -= held.count


def busy(detail: str) -> ProblemError:
    """Return the answer to a request of which nothing was taken, because there are too many."""
    return ProblemError(429, detail, "Send it again later.", {"Retry-After": "1"})


async def read_body(request: Request, held: Held, *, limit: int = MAX_UNPACKED_BYTES) -> bytes:
    """Return the body of a request, unpacked.

    Args:
        request: The request. :class:`~switchgear_access.body.LimitedBody` bounds its size and the time that it takes.
        held: Counts its bytes.
        limit: The most bytes after unpacking.

    Raises:
        ProblemError: The body is broken or too large, or all requests together hold too much.
    """
    parts: list[bytes] = []
    try:
        async for part in request.stream():
            held.add(len(part))
            parts.append(part)
    except ClientDisconnect:
        raise ProblemError(400, "The connection ended before the end of the body.") from None
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        return body
    if encoding != "gzip":
        raise ProblemError(
            415, f"The content encoding {encoding!r:.50} is unknown.", "Use gzip, or no compression.", _ACCEPTS
        )
    return await _unpacked(body, held, limit)


async def _unpacked(body: bytes, held: Held, limit: int) -> bytes:
    """Return the content of gzip. It is unpacked in parts, so that a bomb is noticed before it fills the memory."""
    found: list[bytes] = []
    size, members, rest = 0, 0, body
    try:
        while rest:  # a gzip file may have several members
            members += 1
            if members > _MAX_MEMBERS:
                raise ProblemError(413, f"The gzip body has more than {_MAX_MEMBERS} members.", "Send one.")
            unpacker = zlib.decompressobj(_GZIP)
            while rest and not unpacker.eof:
                if size < _INLINE:
                    part = unpacker.decompress(rest, _CHUNK)
                else:
                    part = await asyncio.to_thread(unpacker.decompress, rest, _CHUNK)
                rest = unpacker.unconsumed_tail
                size += len(part)
                if size > limit:
                    raise ProblemError(
                        413, f"The body unpacks to more than {limit:,} bytes.", "Send it in smaller parts."
                    )
                held.add(len(part))
                found.append(part)
            if not unpacker.eof:
                raise ProblemError(400, "The gzip body ends too early.")
            rest = unpacker.unused_data
    except zlib.error as error:
        raise ProblemError(400, f"The body isn't gzip: {error}.") from None
    return found[0] if len(found) == 1 else b"".join(found)
