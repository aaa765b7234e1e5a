"""Cutting batches by size and age, and a named range exactly."""

from __future__ import annotations

import random

import pytest

from switchgear_sinks.writer.batches import RECORD_BYTES, BatchBuffer
from switchgear_sinks.writer.offset_commits import Intent
from switchgear_sinks.writer.settings import WriterLimits
from tests.support.records import NOON_MS, HandMadeRecord, records
from tests.support.table import table

LIMITS = WriterLimits(batch_rows=3, batch_age_s=1.0, batch_bytes=1_000)


def some(count: int, first: int = 0, size: int = 1) -> list[HandMadeRecord]:
    return records(*[b"x" * size] * count, first=first)


def test_empty_buffer_has_no_batch() -> None:
    buffer = BatchBuffer(LIMITS)
    assert buffer.cut(10.0) is None
    assert buffer.cut(10.0, everything=True) is None
    assert buffer.due_in(10.0) is None


def test_a_batch_is_due_when_it_has_its_rows() -> None:
    buffer = BatchBuffer(LIMITS)
    buffer.add(some(2), 0.0)
    assert buffer.cut(0.0) is None
    buffer.add(some(2, first=2), 0.0)
    batch = buffer.cut(0.0)
    assert batch is not None
    assert [record.offset for record in batch.records] == [0, 1, 2]
    assert batch.intent == Intent(0, 2, NOON_MS)
    assert len(buffer) == 1


def test_a_batch_is_due_when_it_has_its_bytes() -> None:
    buffer = BatchBuffer(LIMITS)
    buffer.add(some(2, size=600), 0.0)
    batch = buffer.cut(0.0)
    assert batch is not None
    assert batch.size == 2 * (600 + len(b"search") + RECORD_BYTES)
    assert buffer.size == 0


def test_keys_and_headers_count_for_the_size_of_a_batch() -> None:
    for heavy in (HandMadeRecord(key=bytes(1_000)), HandMadeRecord(headers=[("name", bytes(1_000))])):
        buffer = BatchBuffer(LIMITS)
        buffer.add([heavy], 0.0)
        assert buffer.size >= 1_000
        assert buffer.cut(0.0) is not None
        assert buffer.size == 0


def test_records_without_bytes_count_for_the_size_of_a_batch() -> None:
    buffer = BatchBuffer(WriterLimits(batch_rows=1_000, batch_bytes=4 * RECORD_BYTES))
    buffer.add([HandMadeRecord(offset=offset, key=None) for offset in range(4)], 0.0)
    assert buffer.cut(0.0) is not None


def test_a_batch_is_due_at_its_age_and_not_before() -> None:
    buffer = BatchBuffer(LIMITS)
    buffer.add(some(1), 5.0)
    assert buffer.due_in(5.25) == 0.75
    assert buffer.cut(5.9) is None
    assert buffer.due_in(6.0) == 0.0
    assert buffer.cut(6.0) is not None


def test_the_oldest_record_decides_when_a_batch_is_due_however_many_follow() -> None:
    buffer = BatchBuffer(WriterLimits(batch_rows=1_000, batch_age_s=1.0))
    for step in range(4):
        buffer.add(some(1, first=step), step * 0.25)
    assert buffer.due_in(0.75) == 0.25
    batch = buffer.cut(1.0)
    assert batch is not None
    assert len(batch.records) == 4


def test_records_that_remain_after_a_cut_keep_their_age() -> None:
    buffer = BatchBuffer(LIMITS)
    buffer.add(some(2), 0.0)
    buffer.add(some(2, first=2), 0.8)
    assert buffer.cut(0.9) is not None
    assert buffer.due_in(0.9) == pytest.approx(0.9)


def test_a_hurried_buffer_returns_what_it_has() -> None:
    buffer = BatchBuffer(LIMITS)
    buffer.add(some(1), 0.0)
    assert buffer.cut(0.0, everything=True) is not None


def test_pending_range_is_cut_exactly_whatever_its_size_and_age() -> None:
    buffer = BatchBuffer(LIMITS, Intent(10, 14, 77))
    buffer.add(some(4, first=10), 0.0)
    assert buffer.cut(100.0, everything=True) is None, "the range is not complete"
    assert buffer.due_in(100.0) is None
    buffer.add(some(4, first=14), 100.0)
    batch = buffer.cut(100.0)
    assert batch is not None
    assert batch.intent == Intent(10, 14, 77), "the stamp is the one that was committed"
    assert [record.offset for record in batch.records] == [10, 11, 12, 13, 14]
    following = buffer.cut(100.0)
    assert following is not None
    assert following.intent.first == 15


def test_a_range_whose_end_was_compacted_away_is_complete_at_the_next_record() -> None:
    buffer = BatchBuffer(LIMITS, Intent(0, 5, 1))
    buffer.add(some(2), 0.0)
    assert buffer.cut(0.0) is None
    buffer.add(some(1, first=9), 0.0)
    batch = buffer.cut(0.0)
    assert batch is not None
    assert [record.offset for record in batch.records] == [0, 1]


def test_a_range_whose_end_was_compacted_away_is_complete_at_the_end_of_the_log() -> None:
    buffer = BatchBuffer(LIMITS, Intent(0, 5, 1))
    buffer.add(some(2), 0.0)
    buffer.end_of_log()
    batch = buffer.cut(0.0)
    assert batch is not None
    assert batch.intent == Intent(0, 5, 1)
    assert len(batch.records) == 2


def test_pending_range_without_records_is_an_empty_batch() -> None:
    buffer = BatchBuffer(LIMITS, Intent(0, 5, 1))
    buffer.add(some(1, first=20), 0.0)
    batch = buffer.cut(0.0)
    assert batch is not None
    assert batch.records == []
    assert batch.intent.last == 5


def test_record_that_is_fetched_twice_is_taken_once() -> None:
    buffer = BatchBuffer(LIMITS)
    assert buffer.add(some(2), 0.0) == 2
    assert buffer.add(some(3), 0.0) == 1
    batch = buffer.cut(0.0)
    assert batch is not None
    assert [record.offset for record in batch.records] == [0, 1, 2]


@table("seed", range(20))
def test_every_record_is_in_exactly_one_batch_in_order(seed: int) -> None:
    chance = random.Random(seed)
    buffer = BatchBuffer(WriterLimits(batch_rows=7, batch_age_s=0.5, batch_bytes=200))
    seen: list[int] = []
    now, offset = 0.0, 0
    while offset < 500 or len(buffer):
        if offset < 500:
            count = chance.randint(1, 20)
            buffer.add(some(count, first=offset, size=chance.randint(0, 60)), now)
            offset += count
        now += chance.random()
        while (batch := buffer.cut(now)) is not None:
            offsets = [record.offset for record in batch.records]
            assert (batch.intent.first, batch.intent.last) == (offsets[0], offsets[-1])
            assert len(offsets) <= 7
            seen += offsets
    assert seen == list(range(offset))
    assert buffer.size == 0
