"""Read the body of a request: within a budget of the process, and without its compression."""

from __future__ import annotations

import codecs
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from starlette.requests import ClientDisconnect, Request

from switchgear_http.problem import ProblemError
from switchgear_http.turns import Turn

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BODY_BYTES: Final = 8 * 1_048_576
"""The largest request as it is sent."""
MAX_UNPACKED_BYTES: Final = 32 * 1_048_576
"""The largest request after unpacking."""
MAX_HELD_BYTES: Final = 160 * 1_048_576
"""Memory of all requests in progress: their bodies, and what is made of them. Those with one token have at most half of it."""
_ACCEPTS: Final = {"Accept-Encoding": "gzip, zstd"}
_GZIP: Final = 31
"""zlib's window bits for a gzip header."""
_ZSTD: Final[Mapping[int, int]] = {zstd.DecompressionParameter.window_log_max: 23}
"""The largest window of a frame is 8 MiB, as RFC 9659 says for HTTP."""
_CHUNK: Final = 262_144
_MAX_MEMBERS: Final = 16
_INLINE: Final = 262_144
"""So many bytes are unpacked at once. The rest is unpacked in a thread, so that other requests go on."""


class Held:
    """The memory that one request holds.

    Args:
        budget: The memory of all requests.
        client: The credential that sent it; empty for a client of this machine, which has no limit of its own.
    """

    def __init__(self, budget: Budget, client: str = "") -> None:
        self._budget = budget
        self._client = client
        self.count = 0

    def add(self, count: int) -> None:
        """Hold more.

        Raises:
            ProblemError: The client's requests, or all requests together, would hold too much.
        """
        self._budget.take(count, self._client)
        self.count += count

    def release(self, count: int) -> None:
        """Hold less."""
        self._budget.give_back(count, self._client)
        self.count -= count


class Budget:
    """Bounds the memory that requests hold at a time: those of one client first, then all.

    Args:
        most: Bytes of all of them. One client has at most half.
    """

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self._of_client: Counter[str] = Counter()
        self.held = 0

    def take(self, count: int, client: str) -> None:
        """Count bytes.

        Raises:
            ProblemError: There would be too many.
        """
        if client and self._of_client[client] + count > self._most // 2:
            raise busy("This token has too many large requests in progress.")
        if self.held + count > self._most:
            raise busy("The gateway has too many large requests in progress.")
        self.held += count
        if client:
            self._of_client[client] += count

    def give_back(self, count: int, client: str) -> None:
        """Count fewer bytes."""
        self.held -= count
        if client:
            self._of_client[client] -= count
            if not self._of_client[client]:
                del self._of_client[client]

    @contextmanager
    def request(self, client: str = "") -> Iterator[Held]:
        """Count what one request holds while the block runs."""
        held = Held(self, client)
        try:
            yield held
        finally:
            held.release(held.count)


def busy(detail: str) -> ProblemError:
    """Return the answer to a request of which nothing was taken, because there are too many."""
    return ProblemError(429, detail, "Send it again later.", {"Retry-After": "1"})


async def read_body(request: Request, held: Held, *, limit: int = MAX_UNPACKED_BYTES) -> bytes:
    """Return the body of a request, unpacked.

    Args:
        request: The request. :class:`~switchgear_http.body.LimitedBody` bounds its size and the time that it takes.
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
    if encoding not in _PARTS:
        raise ProblemError(
            415, f"The content encoding {encoding!r:.50} is unknown.", "Use gzip, zstd, or no compression.", _ACCEPTS
        )
    return await unpacked(body, held, limit=limit, encoding=encoding)


def without_bom(body: bytes) -> bytes:
    """Return JSON without the mark of UTF-8 at its beginning, which programs on Windows write."""
    return body.removeprefix(codecs.BOM_UTF8)


async def unpacked(body: bytes, held: Held, *, limit: int, encoding: str = "gzip") -> bytes:
    """Return the content of a compressed body. It is unpacked in parts, so that a bomb is noticed before it fills the memory.

    Args:
        body: What was sent. ``held`` counts it until it is unpacked.
        held: Counts the content.
        limit: The most bytes after unpacking.
        encoding: ``gzip`` or ``zstd``.

    Raises:
        ProblemError: The body is broken or too large, or all requests together hold too much.
    """
    found: list[bytes] = []
    size, turn, parts = 0, Turn(), _PARTS[encoding](body)
    while (part := next(parts, None) if size < _INLINE else await turn.in_thread(next, parts, None)) is not None:
        size += len(part)
        if size > limit:
            raise ProblemError(413, f"The body unpacks to more than {limit:,} bytes.", "Send it in smaller parts.")
        held.add(2 * len(part))  # until the parts are one
        found.append(part)
    whole = b"".join(found) if size <= _INLINE else await turn.in_thread(b"".join, found)
    held.release(len(body) + size)
    return whole


def _of_gzip(body: bytes) -> Iterator[bytes]:
    rest, members = body, 0
    try:
        while rest:  # a gzip file may have several members
            members += 1
            _check_members(members, "gzip")
            unpacker = zlib.decompressobj(_GZIP)
            while rest and not unpacker.eof:
                yield unpacker.decompress(rest, _CHUNK)
                rest = unpacker.unconsumed_tail
            if not unpacker.eof:
                raise ProblemError(400, "The gzip body ends too early.")
            rest = unpacker.unused_data
    except zlib.error as error:
        raise ProblemError(400, f"The body isn't gzip: {error}.") from None


def _of_zstd(body: bytes) -> Iterator[bytes]:
    rest, members = body, 0
    try:
        while rest:  # and a body of zstd several frames
            members += 1
            _check_members(members, "zstd")
            unpacker = zstd.ZstdDecompressor(options=_ZSTD)
            yield unpacker.decompress(rest, _CHUNK)
            while not unpacker.eof:
                if unpacker.needs_input:
                    raise ProblemError(400, "The zstd body ends too early.")
                yield unpacker.decompress(b"", _CHUNK)
            rest = unpacker.unused_data
    except zstd.ZstdError as error:
        raise ProblemError(400, f"The body isn't zstd: {error}.") from None


def _check_members(number: int, encoding: str) -> None:
    if number > _MAX_MEMBERS:
        raise ProblemError(413, f"The {encoding} body has more than {_MAX_MEMBERS} members.", "Send one.")


_PARTS: Final[Mapping[str, Callable[[bytes], Iterator[bytes]]]] = {"gzip": _of_gzip, "zstd": _of_zstd}
"""The content of a compressed body, in parts of at most 256 KiB."""
