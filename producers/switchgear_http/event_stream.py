"""Streams of server-sent events: the log that they read, the hub that wakes them, and the answer that sends them.

A client has no queue. Its stream knows its place in a log that all streams share, and takes what comes next when the client has read
what came before. What a stream does when its place is not in memory any more is up to the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from starlette.types import Receive, Scope, Send

from switchgear_http.middleware import access_of

PIECE_BYTES: Final = 64 * 1024
"""About so many bytes are made for a stream at a time. Those of a client that reads nothing stay in memory."""
_PIECE_LIMIT_S: Final = 40.0
"""For one piece. The server itself closes a connection whose answer stays unread for 30 s."""
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]
T = TypeVar("T")


def event_parts(event_id: str, kind: str, data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield an event as a ``text/event-stream`` has it. The data is one line, in parts."""
    yield b"id: %s\nevent: %s\ndata: " % (event_id.encode(), kind.encode())
    yield from data
    yield b"\n\n"


def event_text(event_id: str, kind: str, data: bytes) -> bytes:
    """Return an event as a ``text/event-stream`` has it. The data is one line."""
    return b"".join(event_parts(event_id, kind, (data,)))


def piece_of(texts: Iterator[bytes], size: int = PIECE_BYTES) -> bytes:
    """Return the next texts, about ``size`` bytes. Empty: there are no more."""
    piece = bytearray()
    for text in texts:
        piece += text
        if len(piece) >= size:
            break
    return bytes(piece)


def pieces(texts: Iterator[bytes], size: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield the bytes in pieces of about ``size``, so that no client has more than that in memory."""
    return iter(lambda: piece_of(texts, size), b"")


class Piece(NamedTuple):
    """The text of some events, and the number of the first event after them."""

    text: bytes
    end: int


class EventLog(Generic[T]):
    """The last events, numbered from 0.

    Args:
        most: Events in memory.
        most_bytes: Bytes of them.
        size: Returns the bytes of an event.
    """

    def __init__(self, most: int, most_bytes: float = math.inf, size: Callable[[T], int] = lambda _: 0) -> None:
        self.start = 0
        """The number of the oldest event in memory."""
        self._most = most
        self._most_bytes = most_bytes
        self._size = size
        self._events: list[T] = []
        self._bytes = 0

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self.start + len(self._events)

    def add(self, event: T) -> list[T]:
        """Append an event, and return those that are forgotten for it."""
        self._events.append(event)
        self._bytes += self._size(event)
        count = 0
        while len(self._events) - count > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._size(self._events[count])
            count += 1
        forgotten = self._events[:count]
        del self._events[:count]
        self.start += count
        return forgotten

    def since(self, number: int) -> Sequence[T] | None:
        """Return the events from this number on, or None if some are not in memory any more."""
        return self._events[number - self.start :] if number >= self.start else None

    def piece_since(self, number: int, text: Callable[[T], bytes]) -> Piece | None:
        """Return the next events from this number on, or None if some are not in memory any more.

        Args:
            number: Where to begin.
            text: Returns the text of an event. Empty: this client doesn't get it.
        """
        events = self.since(number)
        if events is None:
            return None
        rest = iter(events)
        piece = piece_of(map(text, rest))
        return Piece(piece, self.end - len(list(rest)))


class EventHub:
    """Wakes streams when there is something new for them, and ends them when the server stops."""

    def __init__(self) -> None:
        self.closed = False
        self._wakes: dict[asyncio.Event, str | None] = {}

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._wakes)

    @contextlib.contextmanager
    def following(self, group: str | None = None) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the hub wakes its streams, or those of the group, while the block runs."""
        woken = asyncio.Event()
        self._wakes[woken] = group
        try:
            yield woken
        finally:
            del self._wakes[woken]

    def wake(self, group: str | None = None) -> None:
        """Wake the streams of a group. None: all."""
        for woken, each in self._wakes.items():
            if group is None or each == group:
                woken.set()

    def close(self) -> None:
        """End the streams."""
        self.closed = True
        self.wake()


class EventStream:
    """An answer of events. It ends when the client goes away or loses its rights, its time is over, the hub closes, or the events end.

    Args:
        hub: Wakes the stream.
        events: Yields what the client doesn't have yet, a piece after the one before was sent; None when the client has all.
        look_s: Whether the client still has the rights that it had at the beginning is asked again and again, after a time between these.
        heartbeat: Returns an event for a client that has all others: one at the beginning, and one after each look.
        lifetime_s: How long the stream lasts. Its client then comes back.
        group: Its streams are woken together.
        headers: More headers.
    """

    def __init__(
        self,
        hub: EventHub,
        events: Iterator[bytes | None],
        look_s: tuple[float, float],
        *,
        heartbeat: Callable[[], bytes] = bytes,
        lifetime_s: float = math.inf,
        group: str | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self._hub = hub
        self._events = events
        self._look_s = look_s
        self._heartbeat = heartbeat
        self._lifetime_s = lifetime_s
        self._group = group
        self._headers = [*_HEADERS, *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        with contextlib.suppress(TimeoutError):  # the client reads nothing; the server closes the connection
            if scope["method"] != "HEAD":
                with self._hub.following(self._group) as woken:
                    await self._send_events(scope, receive, send, woken)
            await _send(send, b"", more=False)

    async def _send_events(self, scope: Scope, receive: Receive, send: Send, woken: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._lifetime_s
        gone = loop.create_task(_until_gone(receive))
        gone.add_done_callback(lambda _: woken.set())
        timer: asyncio.TimerHandle | None = None
        look_due, beat_due = False, True

        def look() -> None:
            nonlocal look_due, beat_due
            look_due = beat_due = True
            woken.set()

        try:
            for piece in self._events:
                if piece is None and beat_due:
                    beat_due = False
                    timer = loop.call_later(random.uniform(*self._look_s), look)  # noqa: S311 - spreads the work
                    await _send(send, self._heartbeat())
                elif piece is None:
                    await woken.wait()
                else:
                    await _send(send, piece)
                woken.clear()  # before the looks at what may have woken the stream
                if gone.done() or self._hub.closed or loop.time() >= until:
                    return
                if look_due:
                    look_due = False
                    if not await access_of(scope).still_admits(scope):
                        return
        finally:
            gone.cancel()
            if timer is not None:
                timer.cancel()


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    if body or not more:
        async with asyncio.timeout(_PIECE_LIMIT_S):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
