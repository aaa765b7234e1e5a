"""What the fence remembers of the log, without a broker."""

from __future__ import annotations

from switchgear.fleet import Message
from switchgear_stream.resent import Memory


def record(offset: int, timestamp: int) -> Message:
    return Message("t.executions", 0, offset, timestamp, b"search", b"{}")


def test_the_memory_keeps_the_newest_record_of_an_id():
    memory = Memory(since_ms=0, first=5, end=5)
    memory.add(record(5, 100), b"a")
    memory.add(record(6, 200), b"b")
    memory.add(record(7, 300), b"a")
    memory.add(record(8, 400), None)
    assert (memory.appended_ms, memory.end) == ({b"a": 300, b"b": 200}, 9)


def test_older_records_are_put_before_and_newer_ones_stay():
    newer, older = Memory(1_000, 10, 10), Memory(500, 4, 4)
    newer.add(record(10, 1_100), b"a")
    older.add(record(4, 600), b"a")
    older.add(record(5, 700), b"b")
    newer.put_before(older)
    assert newer.appended_ms == {b"a": 1_100, b"b": 700}
    assert (newer.since_ms, newer.first, newer.end) == (500, 4, 11)
