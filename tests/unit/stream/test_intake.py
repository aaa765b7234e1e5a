from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiokafka import ConsumerRecord
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from switchgear_schemas.settings import load_settings
from switchgear_schemas.unreadable import BatchGuard
from switchgear_stream.app import build_app
from switchgear_stream.intake import HELD_BYTES, _ReadOffsets

EVENTS = TP("t.executions", 1)
CHANGELOG = TP("t.worker-circuits-changelog", 1)


def _record(tp: TP, offset: int) -> ConsumerRecord:
    return ConsumerRecord(tp.topic, tp.partition, offset, 1000 + offset, 1, b"k", b"v", None, 1, 1, ())


@pytest.fixture
async def consumer():
    app, _, _ = build_app(load_settings(topic_prefix="t."))
    yield app.consumer
    app.consumer._thread.thread_loop.close()


async def test_the_records_of_a_poll_become_one_message_per_partition(consumer, monkeypatch):
    polled = {EVENTS: [_record(EVENTS, n) for n in range(3)], CHANGELOG: [_record(CHANGELOG, n) for n in range(2)]}

    async def getmany(*_):
        return polled

    monkeypatch.setattr(driver.Consumer, "_getmany", getmany)
    found = await consumer._getmany(None, 1.0)
    (batch,) = found[EVENTS]
    assert batch.offset == 2
    assert batch.value == polled[EVENTS]
    assert found[CHANGELOG] == polled[CHANGELOG]


async def test_an_empty_poll_stays_empty(consumer, monkeypatch):
    async def getmany(*_):
        return {EVENTS: []}

    monkeypatch.setattr(driver.Consumer, "_getmany", getmany)
    assert await consumer._getmany(None, 1.0) == {EVENTS: []}


async def test_the_offset_to_commit_is_after_the_highest_acknowledged(consumer):
    consumer._acked[EVENTS].extend([1999, 3999])
    consumer._acked_index[EVENTS].update([1999, 3999])
    assert consumer._new_offset(EVENTS) == 4000
    assert consumer._new_offset(EVENTS) is None
    assert consumer._acked_index[EVENTS] == set()


async def test_a_batch_of_records_leaves_no_gap_in_the_acknowledged_offsets(consumer):
    await consumer._add_gap(EVENTS, 0, 1999)
    await consumer._add_gap(CHANGELOG, 5, 9)
    assert EVENTS not in consumer._gap
    assert consumer._gap[CHANGELOG]


async def test_seeking_stops_the_flow_and_starts_new_partitions_at_their_beginning(consumer, monkeypatch):
    sought: list[object] = []

    async def seek_to_committed():
        return {EVENTS: None, TP("t.executions", 2): 70}

    async def seek_to_beginning(*tps):
        sought.extend(tps)

    monkeypatch.setattr(consumer, "seek_to_committed", seek_to_committed)
    monkeypatch.setattr(consumer, "assignment", lambda: {EVENTS, TP("t.executions", 2), CHANGELOG})
    monkeypatch.setattr(consumer._thread, "seek_to_beginning", seek_to_beginning)
    consumer.flow_active = True
    await consumer.perform_seek()
    assert not consumer.flow_active
    assert [tuple(tp) for tp in sought] == [tuple(EVENTS)]
    assert consumer.committed_offset(TP("t.executions", 2)) == 70
    assert consumer.committed_offset(EVENTS) is None


def test_the_read_offset_is_kept_only_for_topics_that_are_not_batched():
    marks = _ReadOffsets(lambda tp: tp == EVENTS, {})
    marks[EVENTS] = 10
    marks[CHANGELOG] = 11
    assert marks[EVENTS] is None
    assert marks[CHANGELOG] == 11
    assert marks[TP("other", 0)] is None


async def test_a_commit_after_the_partitions_were_revoked_does_nothing(consumer, monkeypatch):
    committed: list[object] = []

    async def commit(offsets):
        committed.append({tuple(tp): offset.offset for tp, offset in offsets.items()})

    thread = consumer._thread
    monkeypatch.setattr(thread, "_ensure_consumer", lambda: SimpleNamespace(commit=commit))
    monkeypatch.setattr(thread, "assignment", lambda: {EVENTS})
    assert not await thread._commit({TP("t.executions", 2): 5})
    assert not await thread._commit({})
    assert committed == []
    assert await thread._commit({EVENTS: 7, TP("t.executions", 2): 5})
    assert committed == [{tuple(EVENTS): 7}]


async def test_the_bytes_of_a_batch_count_as_held_until_it_is_garbage_collected(consumer, monkeypatch):
    async def getmany(*_):
        return {EVENTS: [_record(EVENTS, n) for n in range(3)], CHANGELOG: [_record(CHANGELOG, 0)]}

    monkeypatch.setattr(driver.Consumer, "_getmany", getmany)
    first, second = await consumer._getmany(None, 1.0), await consumer._getmany(None, 1.0)
    assert consumer.held_bytes == 2 * 3 * len(b"kv")
    del first
    assert consumer.held_bytes == 3 * len(b"kv")
    second.clear()
    assert consumer.held_bytes == 0


async def test_a_worker_that_holds_too_many_bytes_does_not_poll(consumer, monkeypatch):
    polls: list[float] = []

    async def getmany(_self, _partitions, timeout):  # noqa: ASYNC109 - Faust's signature
        polls.append(timeout)
        return {EVENTS: []}

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "getmany", getmany)
    thread = consumer._thread
    thread._guard = BatchGuard(poll_bytes=1)
    consumer._held[1] = HELD_BYTES + 1
    assert await thread.getmany(None, 1.0) == {}
    assert polls == []
    consumer._held.clear()
    assert await thread.getmany(None, 1.0) == {EVENTS: []}
