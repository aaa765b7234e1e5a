"""Events that are sent again are counted once, for every division of the log into batches and after a restart."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError

from switchgear_schemas import marked_ids
from switchgear_schemas.headers import RESENT
from switchgear_schemas.partitioner import owner_partition
from switchgear_stream import resent
from switchgear_stream.inspect import read_rows
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.resent import ResentFence
from switchgear_stream.topic_reader import PartitionReader, read_to_end
from tests.support.sinking import Message, produce
from tests.support.stream import eventually, metric

MARK = [(RESENT, b"1")]


def event(identity: object = None, *, marked: bool = False, partition: int | None = None, **fields: Any) -> Message:
    """An execution of ``search``; ``identity`` is any name of it."""
    known = {} if identity is None else {"metric_id": str(uuid.uuid5(uuid.NAMESPACE_OID, str(identity)))}
    recorded = {"recorded_at": datetime.now(UTC).isoformat()}
    value = json.dumps({"tool_name": "search", "status": "error"} | known | recorded | fields).encode()
    return Message(value, b"search" if partition is None else None, MARK if marked else [], partition)


async def log_of(settings):
    """The records of search's partition."""
    own = owner_partition("search", settings.topic_partitions)
    return [record async for record in read_to_end(settings, settings.topics.executions, [own])]


def counted(metrics: WorkerMetrics, found: str) -> float:
    return metrics.registry.get_sample_value("switchgear_worker_resent_total", {"found": found}) or 0.0


async def kept_in_batches(fence: ResentFence, records, size: int) -> list[int]:
    kept: list[int] = []
    for first in range(0, len(records), size):
        kept += [record.offset for record in await fence.without_copies(records[first : first + size])]
    return kept


async def test_the_same_events_are_counted_for_every_division_of_the_log_into_batches(settings):
    messages = [
        (event("landed"), True),
        (event("lost", marked=True), True),
        (event("landed", marked=True), False),
        (event("other"), True),
        (event("lost", marked=True), False),
        (event("landed", marked=True), False),
        (event("other"), True),  # a copy without the mark is not looked up
        (event(marked=True), True),  # without an id it can be no copy
        (Message(b'{"tool_name":"search","status":1,"metric_id":"%b"}' % str(uuid.UUID(int=7)).encode()), True),
        (event(metric_id=str(uuid.UUID(int=7)), marked=True), True),  # what was refused before was not counted
        (event(metric_id=str(uuid.UUID(int=7)).upper(), marked=True), False),
        (event("old", recorded_at=(datetime.now(UTC) - timedelta(hours=1)).isoformat()), True),
        (
            event("old", marked=True, recorded_at=(datetime.now(UTC) - timedelta(hours=1)).isoformat()),
            True,
        ),  # late anyway
    ]
    await produce(settings, [message for message, _ in messages])
    records = await log_of(settings)
    wanted = [record.offset for record, (_, stays) in zip(records, messages, strict=True) if stays]
    for size in (1, 2, 3, 5, len(messages)):
        metrics = WorkerMetrics()
        assert await kept_in_batches(ResentFence(settings, metrics), records, size) == wanted, f"batches of {size}"
        assert (counted(metrics, "copy"), counted(metrics, "first")) == (4, 2)
    for start in (3, 5, 9, 12):  # a worker that starts in the middle: what was before is in the log alone
        fresh = ResentFence(settings, WorkerMetrics())
        after = [record for record in records if record.offset >= records[start].offset]
        assert await kept_in_batches(fresh, after, 2) == [each for each in wanted if each >= after[0].offset]


async def test_a_first_copy_that_its_marked_copy_has_overtaken_is_not_counted_within_two_minutes(settings, monkeypatch):
    messages = [event("a", marked=True), event("a"), event("b"), event("b", marked=True), event("c"), event("a")]
    await produce(settings, messages)
    records = await log_of(settings)
    wanted = [records[place].offset for place in (0, 2, 4)]
    for size in (1, 2, 3, len(records)):
        metrics = WorkerMetrics()
        assert await kept_in_batches(ResentFence(settings, metrics), records, size) == wanted, f"batches of {size}"
        assert counted(metrics, "copy") == 3
    monkeypatch.setattr(marked_ids, "OVERTAKEN_S", -1.0)
    fence = ResentFence(settings, WorkerMetrics())
    assert await kept_in_batches(fence, records, 1) == [records[place].offset for place in (0, 1, 2, 4, 5)]


async def test_an_overtaken_first_copy_is_not_counted_by_a_worker_that_kept_its_partition_in_a_rebalance(settings):
    await produce(settings, [event("a", marked=True), event("a")])
    (marked, first), metrics = await log_of(settings), WorkerMetrics()
    fence = ResentFence(settings, metrics)
    assert await fence.without_copies([marked]) == [marked]
    fence.forget()
    fence.keep({marked.partition})
    assert await fence.without_copies([first]) == []
    fence.keep(set())
    assert await fence.without_copies([first]) == [first]


async def test_a_repeated_batch_has_the_same_copies_as_before(settings):
    await produce(settings, [event("a"), event("a", marked=True), event("b", marked=True), event("b", marked=True)])
    records, fence = await log_of(settings), ResentFence(settings, WorkerMetrics())
    first = [record.offset for record in await fence.without_copies(records)]
    assert first == [records[0].offset, records[2].offset]
    assert [record.offset for record in await fence.without_copies(records)] == first
    assert await kept_in_batches(fence, records, 1) == first
    fence.forget()
    assert await kept_in_batches(fence, records, 3) == first


async def test_only_the_window_of_the_log_is_read_back(settings, monkeypatch):
    monkeypatch.setattr(resent, "SLACK_S", 0.0)
    monkeypatch.setattr(resent, "ROUND_MS", 1)
    await produce(settings, [event("same"), *[event(number) for number in range(200)]])
    await asyncio.sleep(0.3)
    await produce(settings, [event("same", marked=True), event("same", marked=True)])
    records = await log_of(settings)
    fence = ResentFence(settings, WorkerMetrics())
    kept = await fence.without_copies(records[-2:])
    assert [record.offset for record in kept] == [records[-2].offset], (
        "the first one is older than the event says it is"
    )
    assert len(fence._memories[records[0].partition].appended_ms) < 10


async def test_a_window_that_was_read_is_not_read_again(settings, monkeypatch):
    windows = []
    real = resent.open_partition

    def counted_window(*given):
        windows.append(given)
        return real(*given)

    monkeypatch.setattr(resent, "open_partition", counted_window)
    first = [event(number) for number in range(30)]
    await produce(
        settings,
        [*first, *[event(number, marked=True) for number in range(30)], event("unmarked"), event(3, marked=True)],
    )
    records, fence = await log_of(settings), ResentFence(settings, WorkerMetrics())
    assert await kept_in_batches(fence, records[30:60], 5) == []
    assert len(windows) == 1, "the first batch reads its window back, the next ones remember it"
    assert await kept_in_batches(fence, records[60:], 1) == [records[60].offset]
    assert len(windows) == 2, "the batch without a mark was not looked at: what it held is read"


async def test_a_window_that_is_too_long_is_reported_and_its_events_are_counted(settings, monkeypatch):
    await produce(settings, [event("a"), event("b"), event("a", marked=True)])
    records, metrics = await log_of(settings), WorkerMetrics()
    whole = PartitionReader.records

    async def endless(window, first, end):
        found = [each async for each in whole(window, first, end)]
        while True:
            for each in found:
                yield each
            await asyncio.sleep(0.05)

    monkeypatch.setattr(PartitionReader, "records", endless)
    found = await ResentFence(settings, metrics, limit_s=3.0).without_copies(records[1:])
    assert found == records[1:]
    assert (counted(metrics, "unknown"), counted(metrics, "copy")) == (1, 0)


async def test_a_batch_is_given_up_and_no_copy_is_counted_if_the_broker_delivers_nothing(settings):
    await produce(settings, [event("a"), event("a", marked=True)])
    records, metrics = await log_of(settings), WorkerMetrics()
    away = settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:9"})
    with pytest.raises((TimeoutError, KafkaError)):
        await ResentFence(away, metrics, limit_s=0.5, away_s=1.0).without_copies(records)
    assert (counted(metrics, "unknown"), counted(metrics, "copy")) == (0, 0)


async def test_a_window_is_read_after_the_broker_comes_back_in_time(settings, monkeypatch):
    await produce(settings, [event("a"), event("a", marked=True)])
    records, metrics = await log_of(settings), WorkerMetrics()
    whole, tries = PartitionReader.offset_at, itertools.count()

    async def away_at_first(window, timestamp_ms):
        if next(tries) == 0:
            raise KafkaConnectionError
        return await whole(window, timestamp_ms)

    monkeypatch.setattr(PartitionReader, "offset_at", away_at_first)
    assert await ResentFence(settings, metrics).without_copies(records[1:]) == []
    assert counted(metrics, "copy") == 1


async def test_a_window_is_read_again_if_the_broker_goes_away_during_the_reading(settings, monkeypatch):
    await produce(settings, [event("a"), event("b"), event("a", marked=True)])
    records, metrics = await log_of(settings), WorkerMetrics()
    whole, tries = PartitionReader.records, itertools.count()

    async def cut_off_at_first(window, first, end):
        away = next(tries) == 0
        async for found in whole(window, first, end):
            yield found[:1] if away else found
            if away:
                await asyncio.sleep(60)

    monkeypatch.setattr(PartitionReader, "records", cut_off_at_first)
    assert await ResentFence(settings, metrics, limit_s=3.0).without_copies(records[2:]) == []
    assert (counted(metrics, "unknown"), counted(metrics, "copy")) == (0, 1)


async def test_the_memory_of_resent_events_is_bounded(settings, monkeypatch):
    monkeypatch.setattr(resent, "REMEMBERED", 5)
    await produce(settings, [*[event(number) for number in range(20)], event(3, marked=True), event(4, marked=True)])
    records, fence = await log_of(settings), ResentFence(settings, WorkerMetrics())
    assert await kept_in_batches(fence, records, 7) == [record.offset for record in records[:20]]
    assert fence._memories == {}


async def test_resent_events_are_counted_once_through_a_restart_and_from_wrong_partitions(settings, start_worker):
    own = owner_partition("search", settings.topic_partitions)
    wrong = (own + 1) % settings.topic_partitions

    def sent(*, marked: bool) -> list[Message]:
        straight = [event(f"straight-{number}", marked=marked) for number in range(40)]
        astray = [event(f"astray-{number}", marked=marked, partition=wrong) for number in range(40)]
        return straight + astray

    async def calls() -> int:
        rows = await read_rows(settings)
        return rows["search"].total_calls if "search" in rows else 0

    async def counted_events(worker, found: str) -> float:
        return metric(worker, f'switchgear_worker_resent_total{{found="{found}"}}')

    worker = start_worker(settings, "--instance-id", "one")
    await produce(settings, sent(marked=False))
    await eventually(lambda: _equals(calls, 80))
    worker.kill9()
    never_landed = [event(f"never-{number}", marked=True) for number in range(10)]
    await produce(settings, [*sent(marked=True), *never_landed, *sent(marked=True), *never_landed])
    worker = await asyncio.to_thread(start_worker, settings, "--instance-id", "one")
    await eventually(lambda: _at_least(lambda: counted_events(worker, "copy"), 2 * 80 + 10), what="all copies seen")
    assert await calls() == 90
    worker.kill9()
    worker = await asyncio.to_thread(start_worker, settings, "--instance-id", "one")
    await produce(settings, [*sent(marked=True), event("last")])
    await eventually(lambda: _equals(calls, 91))
    await eventually(lambda: _at_least(lambda: counted_events(worker, "copy"), 80))
    assert await calls() == 91
    assert worker.terminate() == 0


async def _equals(look, wanted: int) -> bool:
    found = await look()
    assert found <= wanted
    return found == wanted


async def _at_least(look, wanted: float) -> bool:
    return await look() >= wanted
