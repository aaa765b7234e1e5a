"""Streams of events without a server: what wakes them, what ends them, and what they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from switchgear_http import event_stream
from switchgear_http.event_stream import EventHub, EventLog, EventStream, Piece, event_text, pieces
from tests.support.sse import Reader

SELDOM_S = (60.0, 60.0)


def lines(log: EventLog[str]) -> Iterator[bytes | None]:
    """Yield what comes after now."""
    place = log.end
    while (piece := log.piece_since(place, str.encode)) is not None:
        yield piece.text if piece.end > place else None
        place = piece.end


async def test_a_stream_sends_what_comes_and_a_closed_hub_ends_every_stream() -> None:
    hub, log = EventHub(), EventLog[str](10)
    readers = [Reader(EventStream(hub, lines(log), SELDOM_S)) for _ in range(3)]
    await asyncio.sleep(0)
    log.add("one")
    hub.wake()
    assert [await each.next() for each in readers] == [b"one"] * 3
    assert hub.streams == 3
    hub.close()
    for each in readers:
        await each.ended()
    assert hub.streams == 0


async def test_a_stream_takes_nothing_more_before_its_client_has_read() -> None:
    hub, log = EventHub(), EventLog[str](10)
    reader = Reader(EventStream(hub, lines(log), SELDOM_S))
    await asyncio.sleep(0)
    for text in ("one", "two", "three"):
        log.add(text)
        hub.wake()
        await asyncio.sleep(0)
    assert await reader.next() == b"one"
    assert await reader.next() == b"twothree"
    await reader.close()


async def test_a_stream_ends_with_its_events_and_when_the_client_goes_away() -> None:
    hub, log = EventHub(), EventLog[str](2)
    slow, quick = (Reader(EventStream(hub, lines(log), SELDOM_S)) for _ in range(2))
    await asyncio.sleep(0)
    for text in "abcd":
        log.add(text)
    hub.wake()
    await slow.ended()  # its place is forgotten
    quick.go()
    await quick.ended()
    assert hub.streams == 0


async def test_a_group_is_woken_alone() -> None:
    hub = EventHub()
    with hub.following("acme") as acme, hub.following("globex") as globex, hub.following() as other:
        hub.wake("acme")
        assert (acme.is_set(), globex.is_set(), other.is_set()) == (True, False, False)
        hub.wake()
        assert globex.is_set()
        assert other.is_set()


async def test_a_heartbeat_comes_first_and_again_but_never_before_what_the_client_lacks() -> None:
    hub, log = EventHub(), EventLog[str](10)
    log.add("old")
    events = iter([b"snapshot", None])
    reader = Reader(EventStream(hub, events, SELDOM_S, heartbeat=lambda: b"beat"))
    assert [await reader.next(), await reader.next()] == [b"snapshot", b"beat"]
    hub.wake()
    await reader.ended()


async def test_a_stream_ends_when_its_client_has_lost_its_rights_or_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admitted = [True, False]

    class Access:
        async def still_admits(self, _scope: object) -> bool:
            return admitted.pop(0)

    monkeypatch.setattr(event_stream, "access_of", lambda _scope: Access())
    hub, log = EventHub(), EventLog[str](10)
    await Reader(EventStream(hub, lines(log), (0.01, 0.01))).ended()
    assert admitted == []
    await Reader(EventStream(hub, lines(log), (0.01, 0.01), lifetime_s=0.005)).ended()


async def test_head_gets_no_events_and_ends_at_once() -> None:
    hub, log = EventHub(), EventLog[str](10)
    await Reader(EventStream(hub, lines(log), SELDOM_S), "HEAD").ended()


def test_a_log_forgets_the_oldest_events_when_it_has_too_many_or_too_large_ones() -> None:
    log = EventLog[str](3, 10, len)
    assert [log.add(each) for each in ("a", "b", "c", "d", "x" * 9)] == [[], [], [], ["a"], ["b", "c"]]
    assert (log.start, log.end, log.since(2), log.since(3)) == (3, 5, None, ["d", "x" * 9])
    assert log.piece_since(2, str.encode) is None
    assert log.piece_since(4, lambda _: b"") == Piece(b"", 5)


def test_pieces_are_about_as_large_as_wanted_and_lose_nothing() -> None:
    events = [b"x" * length for length in (10, 90, 30, 200, 1)]
    assert [len(each) for each in pieces(iter(events), 100)] == [100, 230, 1]
    log = EventLog[bytes](10)
    for each in (b"x" * 40_000, b"y" * 40_000, b"z"):
        log.add(each)
    assert log.piece_since(0, bytes) == Piece(b"x" * 40_000 + b"y" * 40_000, 2)


def test_an_event_has_an_id_a_kind_and_one_line_of_data() -> None:
    assert event_text("a-1", "reset", b"{}") == b"id: a-1\nevent: reset\ndata: {}\n\n"
