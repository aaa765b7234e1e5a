"""Server-sent events are read as the HTML standard defines them, however the network cuts them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from switchgear.over_http import events as module
from switchgear.over_http.events import EventTooLargeError, ServerEvent, server_events
from tests.support.table import table

STREAM = ': hello\n\nid: 7\nevent: circuit\ndata: {"a":\ndata: 1}\n\ndata:x\r\n\r\nid: 8\r\revent: e\rdata: \u2028ü\r\rrest: 1\n'
EVENTS = [
    ServerEvent("circuit", b'{"a":\n1}', "7"),
    ServerEvent("message", b"x", "7"),
    ServerEvent("e", "\u2028ü".encode(), "8"),
]


async def read(*chunks: bytes) -> list[ServerEvent]:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [event async for event in server_events(body())]


@table("size", [1, 2, 3, 7, 1000])
async def test_events_are_the_same_in_pieces_of_any_size(size: int) -> None:
    raw = STREAM.encode()
    assert await read(*(raw[at : at + size] for at in range(0, len(raw), size))) == EVENTS


async def test_an_event_without_its_end_is_not_an_event() -> None:
    assert await read(b"data: 1\n") == []


async def test_an_event_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1_000)
    assert len(await read(*[b"data: " + b"x" * 600 + b"\n\n"] * 3)) == 3
    with pytest.raises(EventTooLargeError):
        await read(*[b"data: " + b"x" * 600 + b"\n"] * 3)
