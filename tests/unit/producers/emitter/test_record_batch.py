"""Records go into Kafka batches in order, and none is lost or repeated where a batch is split."""

from __future__ import annotations

from collections import deque

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from switchgear.emitter.record_batch import RecordBatch, RunAnswer, fill, singles, total
from switchgear_schemas.headers import RESENT

AT = 1_800_000_000_000


def records(count, size=100):
    found = [RecordBatch(f"tool {number % 3}", [b"%06d" % number + b"x" * size]) for number in range(count)]
    for record in found[1::4]:
        record.resent = True
    return found


def contents(batches):
    return [(each.tool, each.values[0]) for each in singles(batches)]


def read(batch):
    parsed = MemoryRecords(bytes(batch._build()))
    return [(record.key, record.value, record.headers) for record in parsed.next_batch()]


def test_closes_a_full_batch_and_leaves_the_rest_in_the_queue_in_order():
    found = records(200, size=1_000)
    queue, sent = deque(found), []
    while queue:
        batch = BatchBuilder(16_384, 0)
        sent += fill(batch, queue, AT, most=len(queue))
        assert batch.closed() is bool(queue)
        assert batch.record_count() <= 16
    assert sent == found


def test_a_record_larger_than_a_kafka_batch_goes_alone():
    found = records(2, size=50_000)
    batch = BatchBuilder(16_384, 0)
    assert fill(batch, deque(found), AT, most=2) == found[:1]


def test_moves_one_record_at_a_time_when_most_is_one():
    queue = deque(records(3))
    assert len(fill(BatchBuilder(16_384, 0), queue, AT, most=1)) == 1
    assert len(queue) == 2


def test_each_record_of_a_batch_has_its_tool_as_key_and_a_header_if_it_was_sent_before():
    batches = [RecordBatch("a", [b"1", b"2"]), RecordBatch("b", [b"3"], resent=True)]
    batch = BatchBuilder(131_072, 0)
    assert fill(batch, deque(batches), AT, most=9) == batches
    parsed = [*MemoryRecords(bytes(batch._build())).next_batch()]
    assert [(record.key, record.value, record.headers) for record in parsed] == [
        (b"a", b"1", []),
        (b"a", b"2", []),
        (b"b", b"3", [(RESENT, b"1")]),
    ]
    assert {record.timestamp for record in parsed} == {AT}


def test_records_whose_sender_has_given_up_are_marked_also_in_the_rest_of_a_split_batch():
    class Waiting(RunAnswer):
        gone = False

        @property
        def given_up(self):
            return self.gone

        def __call__(self, reason):
            pass

        def part(self, first, count):
            return self

    answer = Waiting()
    queue = deque([RecordBatch("a", [b"1", b"2", b"3"], answer)])
    marks = []
    for gone in (False, True):
        answer.gone = gone
        batch = BatchBuilder(16_384, 0)
        fill(batch, queue, AT, most=1 if not gone else 9)
        marks += [dict(headers) for _, _, headers in read(batch)]
    assert marks == [{}, {RESENT: b"1"}, {RESENT: b"1"}]


@pytest.mark.parametrize("most", [1, 7, 1_000])
def test_a_batch_that_does_not_fit_goes_in_parts_and_loses_or_repeats_nothing(most):
    batches = [
        RecordBatch("a", [b"%03d" % number + b"x" * 1_000 for number in range(100)]),
        *records(3),
        RecordBatch("b", [b"b%03d" % number + b"y" * 1_000 for number in range(50)]),
    ]
    wanted, queue, sent = contents(batches), deque(batches), []
    while queue:
        batch = BatchBuilder(16_384, 0)
        parts = fill(batch, queue, AT, most=most)
        assert 1 <= total(parts) == batch.record_count() <= most
        assert contents([*parts, *queue]) == wanted[len(sent) :]
        sent += contents(parts)
    assert sent == wanted


def test_a_batch_of_large_records_goes_one_by_one():
    queue = deque([RecordBatch("a", [b"x" * 50_000] * 3)])
    for left in (2, 1, 0):
        assert total(fill(BatchBuilder(16_384, 0), queue, AT, most=9)) == 1
        assert total(queue) == left


def test_singles_have_no_mark_answer_or_place_and_a_batch_of_one_stays_the_same_object():
    kept = RecordBatch("b", [b"2"], resent=True)
    first, second, third = singles([RecordBatch("a", [b"0", b"1"]), kept])
    assert (first.tool, first.values, first.resent, first.answer) == ("a", [b"0"], False, None)
    assert second.values == [b"1"]
    assert third is kept
    assert total([RecordBatch("a", [b"1", b"2"]), kept]) == 3
