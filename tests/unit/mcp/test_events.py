"""Server-sent events are read from pieces of any size."""

from __future__ import annotations

import time

import pytest

from switchgear_mcp.channel import MIB
from switchgear_mcp.events import Event, Events


def read(data, piece, most=MIB):
    events, found = Events(most), []
    for at in range(0, len(data), piece):
        found += events.add(data[at : at + piece])
    return found


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 500])
def test_events_are_the_same_wherever_the_pieces_end(end, piece):
    lines = [
        b": ping",
        b"",
        b"event: message",
        b"id: 7",
        b"data: {",
        b"data:}",
        b"",
        b"retry: 50",
        b"id: 8",
        b"",
        b"data: x",
        b"",
        b"",
    ]
    assert read(end.join(lines) + end, piece) == [
        Event(b"{\n}", "7"), Event(b"", "8", 50), Event(b"x"),
    ]  # fmt: skip


@pytest.mark.parametrize("piece", [1, 3, 500])
def test_each_event_has_the_whole_bound_and_one_that_is_larger_is_noticed_before_its_end(piece):
    assert None not in read((b"data: " + b"x" * 800 + b"\n\n") * 5, piece, 1_000)
    assert None in read(b"data: " + b"x" * 1_100, piece, 1_000)
    assert None in read(b"data: [],\n" * 150, piece, 1_000)
    assert None not in read(b": ping\n\n" * 1_000, piece, 1_000)


@pytest.mark.slow
def test_an_event_of_sixty_megabytes_takes_linear_time():
    began = time.process_time()
    (event,) = read(b"data: " + b"x" * 60 * MIB + b"\n\n", 65_536, 64 * MIB)
    assert len(event.data) == 60 * MIB
    assert time.process_time() - began < 2
