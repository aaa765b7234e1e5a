"""A store that is lost while the group's commits stay: the sink says so, and reads again what Kafka still has, each event once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from switchgear_schemas.settings import Settings
from switchgear_sinks.writer import WriterLimits
from tests.support.engine import copy_migrated
from tests.support.groups import commit_by_hand
from tests.support.records import execution
from tests.support.sinking import Message, Sinking, assert_exact, load, produce, sinking, until


async def lacking(sink: Sinking, settings: Settings, offsets: int) -> bool:
    """Return whether the sink's metrics say that the store lacks so many executions."""
    return sink.metric("switchgear_sink_lacking_offsets", topic=settings.topics.executions) == offsets


@pytest.fixture
def lose(make_settings: Callable[..., Settings], tmp_path: Path) -> Callable[[Settings | None], Settings]:
    """`lose(before)`: settings with a new, empty store, and the topics and the group of before."""
    folders = iter(range(10))

    def empty(before: Settings | None) -> Settings:
        folder = tmp_path / f"clickhouse-{next(folders)}"
        copy_migrated(folder)
        if before is None:
            return make_settings(clickhouse_url=f"chdb:{folder}")
        return before.model_copy(update={"clickhouse_url": f"chdb:{folder}"})

    return empty


@pytest.mark.deep
async def test_a_lost_store_is_named_and_read_again_each_event_once(lose: Callable[..., Settings]) -> None:
    first = lose(None)
    await produce(first, load(400))
    async with sinking(first) as sink:
        await sink.until_count(400)
        await sink.until_committed(first)

    here = lose(first)
    await produce(here, load(100))
    async with sinking(here) as sink:
        await sink.until_count(100)
        assert await lacking(sink, here, 400)
        await sink.until_committed(here)
    async with sinking(here) as sink:  # still, although it has rows by now
        await until(lambda: lacking(sink, here, 400), "named again")

    await produce(here, load(60))
    slow = WriterLimits(batch_rows=20, batch_age_s=0.02)
    async with sinking(here, limits=slow, rewind=True) as sink:  # it ends in the middle
        await sink.until_count(150)
    async with sinking(here) as sink:
        await sink.until_count(560)
        await assert_exact(sink.store, 560)
        await sink.until_committed(here)
        assert await lacking(sink, here, 0)

    await produce(here, load(40))
    async with sinking(here, rewind=True) as sink:  # what is complete is not read again
        await sink.until_count(600)
        await sink.until_committed(here)
        await assert_exact(sink.store, 600)


@pytest.mark.parametrize("poll_ms", [100, 3000], ids=["usual polls", "a poll that lasts longer than the rebalance"])
async def test_a_batch_that_a_killed_sink_left_keeps_its_range_when_the_rest_is_read_again(
    lose: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, poll_ms: int
) -> None:
    monkeypatch.setattr("switchgear_sinks.writer.writer._POLL_MS", poll_ms)
    first = lose(None)
    key = b"search"
    places = await produce(first, [Message(execution("search"), key, partition=0) for _ in range(90)])
    stamp = await _timestamp(first, places[60][1])
    await commit_by_hand(first, {0: (60, f"pending:0=60-79:{stamp}")})
    here = lose(first)
    async with sinking(here, rewind=True) as sink:
        await sink.until_count(90)
        await sink.until_committed(here)
        await assert_exact(sink.store, 90)
        assert sink.metric("switchgear_sink_replayed_batches_total") == 1
        assert await lacking(sink, here, 0)


async def _timestamp(settings: Settings, offset: int) -> int:
    consumer = AIOKafkaConsumer(**settings.kafka.options(), enable_auto_commit=False)
    await consumer.start()
    try:
        place = TopicPartition(settings.topics.executions, 0)
        consumer.assign([place])
        consumer.seek(place, offset)
        return int((await consumer.getone()).timestamp)
    finally:
        await consumer.stop()
