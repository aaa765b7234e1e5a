"""The outbox before it is connected: what waits, how it is counted, and what is refused at once."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka.errors import InvalidMessageError
from aiokafka.producer.message_accumulator import BatchBuilder

from switchgear.emitter import outbox as module
from switchgear.emitter.outbox import LARGEST_RECORD, Outbox
from switchgear.emitter.producer import Link
from switchgear.emitter.records import Record, Run, count, singles
from switchgear_schemas.connection import KafkaConnection


@pytest.fixture
def outbox():
    return Outbox(KafkaConnection("127.0.0.1:1"), "executions", limit=100, compression=None)


def test_a_run_counts_as_its_records(outbox):
    outbox.offer([Run("a", [b"1", b"2", b"3"]), Record("b", b"4")])
    assert outbox.pending == 4


def test_what_waits_is_told_record_by_record_in_order_and_is_the_same_when_asked_again(outbox):
    outbox.offer([Run("a", [b"1", b"2"]), Record("a", b"3"), Run("a", [b"4"])])
    found = outbox.unanswered()
    assert [(each.tool, each.value) for each in found] == [("a", b"1"), ("a", b"2"), ("a", b"3"), ("a", b"4")]
    found[1].marked = True
    again = outbox.unanswered()
    assert all(one is other for one, other in zip(found, again, strict=True))
    assert outbox.pending == 4


def test_of_a_run_too_only_the_record_that_is_too_large_is_refused(outbox):
    told = []
    large = b"x" * (LARGEST_RECORD + 1)
    outbox.offer([Run("a", [b"1", large, b"2"]), Record("a", large, told.append), Record("a", b"3")])
    assert [each.value for each in outbox.unanswered()] == [b"1", b"2", b"3"]
    assert (outbox.pending, outbox.failed) == (3, 2)
    assert "more than the" in told[0]


def test_singles_of_a_run_are_unmarked_and_nobody_waits_for_them():
    kept = Record("b", b"2", marked=True)
    first, second = singles([Run("a", [b"1"]), kept])
    assert (first.tool, first.value, first.key, first.marked, first.answer, first.place) == (
        "a", b"1", b"a", False, None, None,
    )  # fmt: skip
    assert second is kept
    assert count([Run("a", [b"1", b"2"]), kept]) == 3


async def test_who_is_in_a_hurry_has_the_next_attempt_at_once(outbox, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 600.0)
    running = asyncio.create_task(outbox.run())

    async def failed(attempts):
        async with asyncio.timeout(60):
            while outbox.failed_attempts < attempts:  # noqa: ASYNC110 - a count has no event
                await asyncio.sleep(0.005)

    await failed(1)
    began = time.monotonic()
    await outbox.hurry()
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
    """Without asking a broker."""

    def partitions(self):
        return 1


@pytest.mark.parametrize("error", [None, InvalidMessageError()], ids=["acknowledged", "refused"])
async def test_a_record_counts_before_a_flush_sees_its_answer(outbox, error):
    """A flush in another thread ends by the mark: its caller then reads the counts."""
    outbox._link = OnePartition(Answering(error), "executions", 1)
    seen = []
    record = Record("a", b"1", lambda _reason: seen.append((outbox.pending, mark.answered)))
    outbox.offer([record])
    mark = await outbox.mark()
    assert not mark.answered
    async with asyncio.timeout(60):
        while not mark.answered:  # noqa: ASYNC110 - a mark has no event
            await asyncio.sleep(0)
    assert seen == [(0, False)]
    assert (outbox.acknowledged, outbox.failed) == ((1, 0) if error is None else (0, 1))
