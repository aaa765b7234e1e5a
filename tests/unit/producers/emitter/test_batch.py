"""Batches are filled past aiokafka's own method, and are the same to the byte."""

from __future__ import annotations

from collections import deque

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from switchgear.emitter.batch import fill
from switchgear.emitter.records import Record, Run, count, singles
from switchgear_schemas.headers import RESENT

AT = 1_800_000_000_000


def records(count, size=100):
    found = [Record(f"tool {number % 3}", b"%06d" % number + b"x" * size) for number in range(count)]
    for record in found[1::4]:
        record.marked = True
    return found


def contents(parcels):
    return [(each.tool, each.value) for each in singles(parcels)]


def publicly(found, batch):
    for record in found:
        headers = [(RESENT, b"1")] if record.marked else []
        assert batch.append(key=record.key, value=record.value, timestamp=AT, headers=headers) is not None


def read(batch):
    parsed = MemoryRecords(bytes(batch._build()))
    return [(record.key, record.value, record.headers) for record in parsed.next_batch()]


@pytest.mark.parametrize("compression", [0, 1])
def test_the_bytes_are_those_of_the_public_way(compression):
    found = records(50)
    ours, theirs = (BatchBuilder(131_072, compression) for _ in range(2))
    assert fill(ours, deque(found), AT, most=100) == found
    publicly(found, theirs)
    assert (ours.record_count(), ours.size()) == (theirs.record_count(), theirs.size()) == (50, theirs.size())
    assert bytes(ours._build()) == bytes(theirs._build())


def test_a_full_batch_is_closed_and_the_rest_stays_in_the_queue_in_order():
    found = records(200, size=1_000)
    queue, sent = deque(found), []
    while queue:
        batch = BatchBuilder(16_384, 0)
        sent += fill(batch, queue, AT, most=len(queue))
        assert batch.closed() is bool(queue)
        assert batch.record_count() <= 16
    assert sent == found


def test_a_record_larger_than_a_batch_goes_alone():
    found = records(2, size=50_000)
    batch = BatchBuilder(16_384, 0)
    assert fill(batch, deque(found), AT, most=2) == found[:1]


def test_one_at_a_time_when_asked():
    queue = deque(records(3))
    assert len(fill(BatchBuilder(16_384, 0), queue, AT, most=1)) == 1
    assert len(queue) == 2


def test_what_was_sent_before_says_so():
    batch = BatchBuilder(131_072, 0)
    fill(batch, deque(records(2)), AT, most=2)
    assert [bool(headers) for _, _, headers in read(batch)] == [False, True]


@pytest.mark.parametrize("compression", [0, 1])
def test_a_runs_bytes_are_those_of_its_records(compression):
    parcels = [Run("a", [b"%d" % number for number in range(30)]), *records(5), Run("b", [b"last"])]
    ours, theirs = (BatchBuilder(131_072, compression) for _ in range(2))
    assert fill(ours, deque(parcels), AT, most=1_000) == parcels
    publicly(singles(parcels), theirs)
    assert ours.record_count() == 36
    assert bytes(ours._build()) == bytes(theirs._build())


@pytest.mark.parametrize("most", [1, 7, 1_000])
def test_a_run_that_has_no_room_goes_in_parts_and_nothing_is_lost_or_sent_twice(most):
    parcels = [
        Run("a", [b"%03d" % number + b"x" * 1_000 for number in range(100)]),
        *records(3),
        Run("b", [b"b%03d" % number + b"y" * 1_000 for number in range(50)]),
    ]
    wanted, queue, sent = contents(parcels), deque(parcels), []
    while queue:
        batch = BatchBuilder(16_384, 0)
        parts = fill(batch, queue, AT, most=most)
        assert 1 <= count(parts) == batch.record_count() <= most
        assert contents([*parts, *queue]) == wanted[len(sent) :]
        sent += contents(parts)
    assert sent == wanted


def test_a_run_of_large_records_goes_one_by_one():
    queue = deque([Run("a", [b"x" * 50_000] * 3)])
    for left in (2, 1, 0):
        assert count(fill(BatchBuilder(16_384, 0), queue, AT, most=9)) == 1
        assert count(queue) == left
