"""How much a stream holds for a client that reads slowly, or not at all."""

from __future__ import annotations

import asyncio
import re

import pytest

from switchgear.testing import FakeClock, MemoryFollower
from switchgear_gateway.circuits.hub import CircuitHub
from switchgear_gateway.circuits.stream import circuit_stream
from switchgear_gateway.circuits.visibility import CircuitFilter
from switchgear_http.event_stream import PIECE_BYTES
from tests.support.sse import Reader
from tests.unit.producers.gateway.circuits.test_changes import record

RECORD_BYTES = 2_000
_ALL = CircuitFilter()


class Hub(CircuitHub):
    """A hub that takes its changes when a test says so."""

    def __init__(self) -> None:
        super().__init__(MemoryFollower(FakeClock().monotonic))
        self._feed.loaded()
        self._take()

    def add(self, count: int) -> None:
        for end in range(self.changes.log.end, self.changes.log.end + count):
            self._feed.changed(record(f"t{end}", end, last_error="x" * RECORD_BYTES))
        self._take()
        self.wake()


def reader_of(hub: Hub, cursor: str | None = None) -> Reader:
    return Reader(circuit_stream(hub, lambda: _ALL, cursor))


def circuits(pieces: list[bytes]) -> list[str]:
    return re.findall(r'"circuit_id":"(t[0-9]+)"', b"".join(pieces).decode())


async def test_what_a_resumed_stream_missed_comes_in_pieces_that_are_made_when_they_are_sent() -> None:
    hub = Hub()
    hub.add(1)
    cursor = hub.changes.cursor
    hub.add(200)
    reader, pieces = reader_of(hub, cursor), [b""]
    await asyncio.sleep(0.01)
    last = hub.changes.log.since(200)
    assert last is not None
    assert last[0]._event is None, "no client has read so far"
    while b"event: heartbeat" not in (piece := await reader.next()):
        pieces.append(piece)
    await reader.close()
    assert max(map(len, pieces)) < PIECE_BYTES + 2 * RECORD_BYTES
    assert circuits(pieces) == [f"t{number}" for number in range(1, 201)]


@pytest.mark.slow
async def test_new_changes_come_in_pieces_and_many_slow_readers_share_a_bounded_number_of_them() -> None:
    hub = Hub()
    readers: list[Reader] = []
    for _ in range(100):  # each is at another place
        hub.add(1)
        readers.append(reader_of(hub))
        await asyncio.sleep(0)
        assert b"snapshot" in await readers[-1].next()
    hub.add(200)
    for reader in readers:
        pieces: list[bytes] = []
        while "t299" not in circuits(pieces):
            pieces.append(await reader.next())
        changed = [each for each in pieces if b"event: circuit" in each]
        assert max(map(len, changed)) < PIECE_BYTES + 2 * RECORD_BYTES
        assert circuits(changed)[-200:] == [f"t{number}" for number in range(100, 300)]
        assert len(hub._pieces) <= 64
    for reader in readers:
        await reader.close()
