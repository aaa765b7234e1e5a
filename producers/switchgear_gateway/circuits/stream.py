"""What one stream of circuits sends: a snapshot or the changes that its client missed, then each change."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

from switchgear_gateway.circuits.changes import CircuitChanges
from switchgear_gateway.circuits.hub import CircuitHub
from switchgear_gateway.circuits.visibility import CircuitFilter
from switchgear_http.event_stream import EventStream, event_parts, event_text, pieces
from switchgear_schemas.circuit_ids import circuit_id

HEARTBEAT_S: Final = (10.0, 15.0)
LIFETIME_S: Final = (600.0, 900.0)
"""Then a stream ends, and its client resumes it, perhaps at another gateway."""
_NOWHERE: Final = -1
"""The place of a client in the changes that has none of them. It is not in memory."""

Look = Callable[[], CircuitFilter]
"""Returns a client's circuits now. The same object until they change, because its tenant has named another tool."""


def circuit_stream(hub: CircuitHub, look: Look, cursor: str | None) -> EventStream:
    """Return the answer to a client.

    Args:
        hub: Has the changes.
        look: What the client gets.
        cursor: The last event that the client has (``Last-Event-ID``); None if it has none.
    """
    tenant = look().sight.tenant
    return EventStream(
        hub,
        circuit_events(hub, look, cursor),
        HEARTBEAT_S,
        heartbeat=lambda: _heartbeat(hub),
        lifetime_s=random.uniform(*LIFETIME_S),  # noqa: S311 - spreads the clients
        group=tenant,
        headers=[] if tenant is None else [(b"switchgear-tenant", quote(tenant).encode())],
    )


def circuit_events(hub: CircuitHub, look: Look, cursor: str | None) -> Iterator[bytes | None]:
    """Yield what the client doesn't have yet, in pieces, and None when it has all."""
    changes, seen = hub.changes, look()
    missed = None if cursor is None or seen.sight.by_name else changes.after(cursor)
    place = _NOWHERE if missed is None else changes.log.end
    yield from pieces(map(seen.event, missed or ()))
    while True:
        if changes is hub.changes and place == changes.log.end:
            now = look()
            if now is seen:
                yield None
            else:
                yield from pieces(_named_since(changes, seen, now))
                seen = now
        elif changes is hub.changes and (piece := hub.piece_since(place, seen)) is not None:
            place = piece.end
            yield piece.text
        else:  # the client is new, or behind the last change in memory, or the topic was created again
            changes = hub.changes
            place = changes.log.end
            yield from pieces(event_parts(changes.cursor, "snapshot", snapshot_json(changes, seen, b'{"circuits":{')))


def snapshot_json(changes: CircuitChanges, seen: CircuitFilter, head: bytes) -> Iterator[bytes]:
    """Yield an object in JSON that begins with ``head`` and ends with the circuits by id."""
    yield head
    before = b""
    for each in [each for each in changes.records.values() if seen.sees(each)]:
        yield b"%s%s:%s" % (before, each.name, each.data(seen.reader))
        before = b","
    yield b"}}"


def _named_since(changes: CircuitChanges, before: CircuitFilter, seen: CircuitFilter) -> Iterator[bytes]:
    """Return the circuits that the client sees now and did not see before."""
    named, tenant, cursor = seen.sight.named, seen.sight.tenant or "", changes.cursor
    tools = named.tools - before.sight.named.tools
    ids = [each for tool in tools for each in (circuit_id(tool), circuit_id(tool, "tenant", tenant))]
    ids += [circuit_id(each, "family") for each in named.families - before.sight.named.families]
    found = (changes.records.get(each) for each in ids)
    return (each.current(seen.reader, cursor) for each in found if each is not None and seen.sees(each))


def _heartbeat(hub: CircuitHub) -> bytes:
    return event_text(hub.changes.cursor, "heartbeat", b'{"fresh":%s}' % (b"true" if hub.fresh else b"false"))
