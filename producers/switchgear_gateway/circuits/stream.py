"""One stream of server-sent events.

A client has no queue. Its stream knows the number of the next change, and takes it from the changes that all streams share. A client
that reads too slowly falls behind, and gets a snapshot when it is behind the last change in memory.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from switchgear_gateway.circuits.changes import Change, CircuitChanges, pieces
from switchgear_gateway.circuits.hub import PIECE_BYTES, CircuitHub
from switchgear_gateway.circuits.visibility import CircuitFilter
from switchgear_http.visibility import Sight
from switchgear_schemas.circuit_ids import circuit_id

HEARTBEAT_S: Final = (10.0, 15.0)
LIFETIME_S: Final = (600.0, 900.0)
"""Then a stream ends, and its client resumes it, perhaps at another gateway."""
_PIECE_LIMIT_S: Final = 40.0
"""For one piece. The server itself closes a connection whose answer stays unread for 30 s."""
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]


class CircuitStream:
    """An answer of events that ends when the client goes away or loses its rights, or the hub closes.

    Args:
        hub: Has the changes.
        look: Returns the client's circuits now. The same object until they change, because its tenant has named another tool.
        cursor: The last event that the client has (``Last-Event-ID``); None if it has none.
        admitted: Returns whether the client still has the rights that it had at the beginning. It is asked about as often as there are
            heartbeats.
    """

    def __init__(
        self,
        hub: CircuitHub,
        look: Callable[[], CircuitFilter],
        cursor: str | None,
        admitted: Callable[[], Awaitable[bool]],
    ) -> None:
        self._hub = hub
        self._admitted = admitted
        self._check_due = False
        self._look = look
        self._seen = look()
        self._cursor = None if self._seen.sight.by_name else cursor
        self._changes: CircuitChanges | None = None
        self._next = 0
        self._gone = False
        self._until = 0.0
        self._beat_due = True
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send events."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + random.uniform(*LIFETIME_S)  # noqa: S311 - spreads the clients
        gone = asyncio.ensure_future(self._wait_until_gone(receive))
        try:
            with self._hub.following(self._wake, self._seen.sight.tenant):
                await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *self._whose()]})
                while not (self._gone or self._hub.closed) and loop.time() < self._until:
                    if self._check_due and not await self._still_admitted():
                        break
                    for piece in self._due():
                        async with asyncio.timeout(_PIECE_LIMIT_S):
                            await send({"type": "http.response.body", "body": piece, "more_body": True})
                        if self._gone:
                            return
                    await self._wait()
            async with asyncio.timeout(_PIECE_LIMIT_S):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return  # the client reads nothing; the server closes the connection
        finally:
            gone.cancel()
            if self._timer is not None:
                self._timer.cancel()

    def _whose(self) -> list[tuple[bytes, bytes]]:
        """Return the header that tells a tenant's client whose circuits it gets."""
        tenant = self._seen.sight.tenant
        return [] if tenant is None else [(b"switchgear-tenant", quote(tenant).encode())]

    def _due(self) -> Iterator[bytes]:
        """Yield what the client doesn't have yet: changes or a snapshot. Then a heartbeat, if its time has come and the client has all.

        A piece is made when the one before was sent. Of new changes this yields one piece.
        """
        if self._changes is not self._hub.changes:
            changes, cursor = self._hub.changes, None if self._changes is not None else self._cursor
            missed = None if cursor is None else changes.after(cursor)
            self._changes, self._next = changes, changes.end
            yield from pieces(self._whole() if missed is None else self._events(missed), PIECE_BYTES)
        elif self._next < self._changes.end:
            piece = self._hub.piece_since(self._next, self._seen)
            self._next = self._changes.end if piece is None else piece.end
            if piece is None:
                yield from pieces(self._whole(), PIECE_BYTES)
            elif piece.events:
                yield piece.events
        elif (seen := self._look()) is not self._seen:
            before, self._seen = self._seen, seen
            yield from pieces(self._named_since(before), PIECE_BYTES)
        if self._beat_due and self._is_current():
            yield self._heartbeat(self._changes.cursor)

    def _events(self, missed: Iterable[Change]) -> Iterator[bytes]:
        return (each.event(self._seen.reader) for each in missed if self._seen.sees(each))

    def _named_since(self, before: CircuitFilter) -> Iterator[bytes]:
        """Return the circuits that the client sees now and did not see before."""
        records, cursor, named = self._hub.changes.records, self._hub.changes.cursor, self._seen.sight.named
        tools, tenant = named.tools - before.sight.named.tools, self._seen.sight.tenant or ""
        ids = [each for tool in tools for each in (circuit_id(tool), circuit_id(tool, "tenant", tenant))]
        ids += [circuit_id(each, "family") for each in named.families - before.sight.named.families]
        found = (records.get(each) for each in ids)
        return (each.current(self._seen.reader, cursor) for each in found if each is not None and self._seen.sees(each))

    def _whole(self) -> Iterator[bytes]:
        """Return a snapshot of now."""
        changes = self._hub.changes
        return self._snapshot([each for each in changes.records.values() if self._seen.sees(each)], changes.cursor)

    def _snapshot(self, records: list[Change], cursor: str) -> Iterator[bytes]:
        yield b"id: %s\nevent: snapshot\ndata: " % cursor.encode()
        yield from snapshot_json(records, b'{"circuits":{', self._seen.reader)
        yield b"\n\n"

    def _heartbeat(self, cursor: str) -> bytes:
        self._beat_due = False
        after_s = random.uniform(*HEARTBEAT_S)  # noqa: S311 - spreads the work
        self._timer = asyncio.get_running_loop().call_later(after_s, self._beat)
        fresh = b"true" if self._hub.fresh else b"false"
        return b'id: %s\nevent: heartbeat\ndata: {"fresh":%s}\n\n' % (cursor.encode(), fresh)

    def _beat(self) -> None:
        self._beat_due = self._check_due = True
        self._wake()

    async def _still_admitted(self) -> bool:
        self._check_due = False
        return await self._admitted()

    def _is_current(self) -> bool:
        return self._changes is self._hub.changes and self._next == self._hub.changes.end

    async def _wait(self) -> None:
        if self._is_current() and self._look() is self._seen and not (self._beat_due or self._gone or self._hub.closed):
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait_until_gone(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._gone = True
            self._wake()


def snapshot_json(records: list[Change], head: bytes, reader: Sight | None) -> Iterator[bytes]:
    """Yield an object in JSON that ends with the circuits by id.

    Args:
        records: The circuits.
        head: The bytes up to the first circuit.
        reader: As for :meth:`Change.data`.
    """
    yield head
    before = b""
    for each in records:
        yield b"%s%s:%s" % (before, each.name, each.data(reader))
        before = b","
    yield b"}}"
