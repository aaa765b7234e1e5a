"""The outbox before it is connected: what waits, how it is counted, and what is refused at once."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka.errors import InvalidMessageError
from aiokafka.producer.message_accumulator import BatchBuilder

from switchgear.emitter import outbox as module
from switchgear.emitter.outbox import Outbox
from switchgear.emitter.producer import Link
from switchgear.emitter.record_batch import RecordBatch
from switchgear.emitter.sender import LARGEST_RECORD
from switchgear_schemas.connection import KafkaConnection
from tests.support.limits import HAPPEN_S


@pytest.fixture
def outbox():
    return Outbox(KafkaConnection("127.0.0.1:1"), "executions", limit=100, compression=None)


def test_pending_counts_the_records_of_a_batch(outbox):
    outbox.offer([RecordBatch("a", [b"1", b"2", b"3"]), RecordBatch("b", [b"4"])])
    assert outbox.pending == 4


def test_unanswered_returns_single_records_in_order_and_the_same_ones_again(outbox):
    outbox.offer([RecordBatch("a", [b"1", b"2"]), RecordBatch("a", [b"3"]), RecordBatch("a", [b"4"])])
    found = outbox.unanswered()
    assert [(each.tool, each.values[0]) for each in found] == [("a", b"1"), ("a", b"2"), ("a", b"3"), ("a", b"4")]
    found[1].resent = True
    again = outbox.unanswered()
    assert all(one is other for one, other in zip(found, again, strict=True))
    assert outbox.pending == 4


def test_refuses_only_the_records_of_a_batch_that_are_too_large(outbox):
    reasons = []
    large = b"x" * (LARGEST_RECORD + 1)
    outbox.offer(
        [RecordBatch("a", [b"1", large, b"2"]), RecordBatch("a", [large], reasons.append), RecordBatch("a", [b"3"])]
    )
    assert [each.values[0] for each in outbox.unanswered()] == [b"1", b"2", b"3"]
    assert (outbox.pending, outbox.failed) == (3, 2)
    assert f"the limit is {LARGEST_RECORD}" in reasons[0]


async def test_hurry_makes_the_next_attempt_to_connect_at_once(outbox, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 600.0)
    running = asyncio.create_task(outbox.run())

    async def failed(attempts):
        async with asyncio.timeout(HAPPEN_S):
            while outbox.failed_attempts < attempts:  # noqa: ASYNC110 - a count has no event
                await asyncio.sleep(0.005)

    await failed(1)
    began = time.monotonic()
    outbox.hurry()
    await failed(2)
    assert time.monotonic() - began < 60
    assert not outbox.connected
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class Answering:
    """A producer whose broker answers every batch at once."""

    def __init__(self, error):
        self.error = error

    def create_batch(self):
        return BatchBuilder(16_384, 0)

    async def send_batch(self, _batch, _topic, partition):
        answer = asyncio.get_running_loop().create_future()
        if self.error is None:
            answer.set_result(partition)
        else:
            answer.set_exception(self.error)
        return answer

    async def stop(self):
        pass


class OnePartition(Link):
    """A link to one partition, without a broker."""

    def partitions(self):
        return 1


@pytest.mark.parametrize("error", [None, InvalidMessageError()], ids=["acknowledged", "refused"])
async def test_a_record_counts_before_a_flush_sees_its_answer(outbox, error):
    """A flush in another thread ends by the mark: its caller then reads the counts."""
    outbox._link = OnePartition(Answering(error), "executions")
    seen = []
    record = RecordBatch("a", [b"1"], lambda _reason: seen.append((outbox.pending, mark.answered)))
    outbox.offer([record])
    mark = await outbox.mark()
    assert not mark.answered
    async with asyncio.timeout(HAPPEN_S):
        while not mark.answered:  # noqa: ASYNC110 - a mark has no event
            await asyncio.sleep(0)
    assert seen == [(0, False)]
    assert (outbox.acknowledged, outbox.failed) == ((1, 0) if error is None else (0, 1))


async def test_a_batch_waits_for_more_records_of_its_partition_as_long_as_it_lingers():
    outbox = Outbox(KafkaConnection("127.0.0.1:1"), "executions", limit=100, compression=None, linger_s=0.001)
    producer = Answering(None)
    outbox._link = OnePartition(producer, "executions")
    sent = []
    producer.create_batch = lambda: sent.append(BatchBuilder(16_384, 0)) or sent[-1]
    outbox.offer([RecordBatch("a", [b"1"])])
    await asyncio.sleep(0)
    outbox.offer([RecordBatch("b", [b"2"])])
    async with asyncio.timeout(HAPPEN_S):
        while outbox.pending:  # noqa: ASYNC110 - a count has no event
            await asyncio.sleep(0.001)
    assert [batch.record_count() for batch in sent] == [2]
