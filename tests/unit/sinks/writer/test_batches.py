"""What waits of a partition: in order, each record once, without what is to be skipped."""

from __future__ import annotations

import random

from switchgear_sinks.writer.batches import RECORD_BYTES, BatchBuffer, size_of
from tests.support.records import HandMadeRecord, records
from tests.support.table import table

MANY = 1_000_000


def some(count: int, first: int = 0, size: int = 1) -> list[HandMadeRecord]:
    return records(*[b"x" * size] * count, first=first)


def offsets(buffer: BatchBuffer, rows: int = MANY, size: int = MANY) -> list[int]:
    return [record.offset for record in buffer.take(rows, size)[0]]


def test_empty_buffer_has_nothing_to_take() -> None:
    assert BatchBuffer().take(MANY, MANY) == ([], 0)


def test_at_most_so_many_rows_are_taken_and_the_others_stay() -> None:
    buffer = BatchBuffer()
    buffer.add(some(4), 0.0)
    assert offsets(buffer, rows=3) == [0, 1, 2]
    assert len(buffer) == 1


def test_no_more_is_taken_once_there_are_so_many_bytes() -> None:
    buffer = BatchBuffer()
    buffer.add(some(3, size=600), 0.0)
    taken, size = buffer.take(MANY, 1_000)
    assert len(taken) == 2
    assert size == 2 * (600 + len(b"search") + RECORD_BYTES)
    assert buffer.size == size // 2


def test_keys_and_headers_count_for_the_size_of_a_record() -> None:
    for heavy in (HandMadeRecord(key=bytes(1_000)), HandMadeRecord(headers=[("name", bytes(1_000))])):
        buffer = BatchBuffer()
        buffer.add([heavy], 0.0)
        assert buffer.size == size_of(heavy) >= 1_000
        buffer.take(1, 1)
        assert buffer.size == 0


def test_records_without_bytes_have_a_size() -> None:
    buffer = BatchBuffer()
    buffer.add([HandMadeRecord(offset=offset, key=None) for offset in range(4)], 0.0)
    assert buffer.size == 4 * RECORD_BYTES


def test_the_oldest_record_decides_the_age_however_many_follow() -> None:
    buffer = BatchBuffer()
    for step in range(4):
        buffer.add(some(1, first=step), step * 0.25)
    assert buffer.oldest_at == 0.0


def test_records_that_remain_after_a_batch_keep_their_age() -> None:
    buffer = BatchBuffer()
    buffer.add(some(2), 0.0)
    buffer.add(some(2, first=2), 0.8)
    buffer.take(1, MANY)
    assert buffer.oldest_at == 0.0
    buffer.take(1, MANY)
    assert buffer.oldest_at == 0.8


def test_record_that_is_fetched_twice_is_taken_once() -> None:
    buffer = BatchBuffer()
    assert buffer.add(some(2), 0.0) == 2
    assert buffer.add(some(3), 0.0) == 1
    assert offsets(buffer) == [0, 1, 2]


def test_what_the_store_has_is_passed_over_and_no_batch_reaches_across_it() -> None:
    buffer = BatchBuffer(range(3, 6))
    assert buffer.add(some(5), 0.0) == 3
    assert buffer.add(some(3, first=5), 0.0) == 2
    assert buffer.next_offset == 8
    assert offsets(buffer) == [0, 1, 2]
    assert offsets(buffer) == [6, 7]


def test_a_topic_that_is_created_again_has_nothing_to_pass_over() -> None:
    buffer = BatchBuffer(range(1, 3))
    buffer.add(some(5), 0.0)
    assert offsets(buffer) == [0]
    assert offsets(buffer) == [3, 4]
    buffer.next_offset = 0
    buffer.add(some(5), 0.0)
    assert offsets(buffer) == [0]
    assert offsets(buffer) == [1, 2, 3, 4]


def test_offsets_that_were_replayed_are_dropped_whether_they_came_or_will_come() -> None:
    buffer = BatchBuffer()
    buffer.add(some(4, first=10), 1.0)
    buffer.skip(range(12, 20))
    assert buffer.size == 2 * size_of(some(1)[0])
    assert buffer.oldest_at == 1.0
    assert buffer.add(some(8, first=14), 2.0) == 2
    assert offsets(buffer) == [10, 11, 20, 21]
    assert len(buffer) == 0


def test_a_buffer_whose_records_were_all_replayed_is_empty() -> None:
    buffer = BatchBuffer()
    buffer.add(some(4), 1.0)
    buffer.skip(range(10))
    assert (len(buffer), buffer.size) == (0, 0)
    buffer.add(some(8, first=4), 2.0)
    assert buffer.oldest_at == 2.0
    assert offsets(buffer) == [10, 11]


@table("seed", range(20))
def test_every_record_is_taken_exactly_once_in_order(seed: int) -> None:
    chance = random.Random(seed)
    stored = range(chance.randrange(0, 200), chance.randrange(200, 400))
    buffer = BatchBuffer(stored)
    seen: list[int] = []
    now, offset = 0.0, 0
    while offset < 500 or len(buffer):
        if offset < 500:
            count = chance.randint(1, 20)
            buffer.add(some(count, first=offset, size=chance.randint(0, 60)), now)
            offset += count
        now += chance.random()
        while len(buffer) > 10 or (offset >= 500 and len(buffer)):
            taken = offsets(buffer, chance.randint(1, 7), chance.randint(1, 2_000))
            assert 1 <= len(taken) <= 7
            assert taken == list(range(taken[0], taken[-1] + 1)), "a batch is all records of its range"
            seen += taken
    assert seen == [each for each in range(offset) if each not in stored]
    assert buffer.size == 0
