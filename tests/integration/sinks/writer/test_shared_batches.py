"""A batch of several partitions that a dead sink left: each of their next owners replays all of it, and it is stored once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import open_store
from switchgear_sinks.writer import WriterLimits
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from switchgear_sinks.writer.intents import Intent, Range
from switchgear_sinks.writer.replay import RangeReader, Replayed
from switchgear_sinks.writer.rows import ExecutionRows
from tests.support.clickhouse_http import ClickHouseServer
from tests.support.engine import copy_migrated
from tests.support.groups import commit_by_hand
from tests.support.records import execution
from tests.support.sinking import (
    Message,
    Sinking,
    assert_exact,
    dead_letters,
    load,
    produce,
    read_topic,
    sinking,
    until,
)

EACH = 40
"""Records of each partition; one of them is junk."""
FIRST, LAST = 10, 29


@pytest.fixture
def here(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    copy_migrated(tmp_path / "clickhouse")
    return make_settings(clickhouse_url=f"chdb:{tmp_path}/clickhouse")


async def left_behind(settings: Settings, *, landed: bool, past: Collection[int] = ()) -> Intent:
    """Fill the partitions, and leave a batch of offsets FIRST to LAST of each as a sink does that is killed. Return its intent.

    The records before are stored. With ``landed``, the batch is too, before its commits. The commits of ``past`` say so already.
    """
    numbers = range(settings.topic_partitions)
    await produce(
        settings,
        [
            Message(b"junk" if place == FIRST + 5 else execution(f"tool-{number}"), partition=number)
            for number in numbers
            for place in range(EACH)
        ],
    )
    found = sorted(
        await read_topic(settings, settings.topics.executions), key=lambda each: (each.partition, each.offset)
    )
    stamps = {each.partition: each.timestamp for each in found if each.offset == FIRST}
    intent = Intent.naming(Range(number, FIRST, LAST, stamps[number]) for number in numbers)
    async with await open_store(settings) as store:
        await migrate(store)
        parts = {"before": [each for each in found if each.offset < FIRST]}
        if landed:
            parts[intent.token(settings.topics.executions)] = [each for each in found if FIRST <= each.offset <= LAST]
        for token, records in parts.items():
            await store.raw_insert(
                "tool_metrics",
                b"\n".join(ExecutionRows().rows(records).values),
                settings=INSERT_SETTINGS | {"insert_deduplication_token": token},
            )
    await commit_by_hand(
        settings,
        {number: (LAST + 1, "") if number in past else (FIRST, intent.metadata()) for number in numbers},
    )
    return intent


def good(settings: Settings) -> int:
    return settings.topic_partitions * (EACH - 1)


@pytest.mark.parametrize("landed", [False, True], ids=["before the insert", "between insert and commit"])
async def test_two_owners_that_replay_a_batch_at_once_store_it_once(
    here: Settings, monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    intent = await left_behind(here, landed=landed)
    both = asyncio.Barrier(2)
    owned: list[Collection[int]] = []
    read = RangeReader.__call__

    async def read_together(self: RangeReader, topic: str, intent: Intent, own: Collection[int]) -> Replayed:
        found = await read(self, topic, intent, own)
        assert len(found.records) == here.topic_partitions * (LAST + 1 - FIRST), "those of the other owner, too"
        await both.wait()  # the first sink owns everything, until the second one comes
        owned.append(own)
        return found

    monkeypatch.setattr(RangeReader, "__call__", read_together)
    limits = WriterLimits(batch_rows=2_000, batch_age_s=0.05, finish_s=0.05)
    async with sinking(here, limits=limits) as first:
        await until(lambda: _replays(first), "replaying everything")
        async with sinking(here, first.store, limits=limits) as second:
            await first.until_committed(here)
            await assert_exact(first.store, good(here))
            assert sorted(number for each in owned for number in each) == list(range(here.topic_partitions))
            assert second.metric("switchgear_sink_replayed_batches_total") == 1
            assert first.metric("switchgear_sink_replayed_batches_total") == 2
    letters = await dead_letters(here)
    assert set(letters) == {(each.partition, FIRST + 5) for each in intent.ranges}


async def test_a_batch_that_a_sink_left_is_one_insert_for_its_next_owner(here: Settings) -> None:
    await left_behind(here, landed=False)
    async with sinking(here) as sink:
        await sink.until_committed(here)
        await assert_exact(sink.store, good(here))
        assert sink.metric("switchgear_sink_replayed_batches_total") == 1
        assert sink.metric("switchgear_sink_batches_total", table="tool_metrics") <= 1 + here.topic_partitions


async def test_partitions_that_wait_together_are_one_insert(here: Settings) -> None:
    async with sinking(here, limits=WriterLimits(batch_age_s=2.0)) as sink:
        await until(lambda: _ready(sink), "ready")
        await produce(
            here,
            [
                Message(execution(), partition=place % here.topic_partitions)
                for place in range(5 * here.topic_partitions)
            ],
        )
        await sink.until_committed(here)
        await assert_exact(sink.store, 5 * here.topic_partitions)
        assert sink.metric("switchgear_sink_batches_total", table="tool_metrics") == 1


async def _replays(sink: Sinking) -> bool:
    return sink.metric("switchgear_sink_replayed_batches_total") == 1


async def _ready(sink: Sinking) -> bool:
    return sink.writer.ready


async def test_a_partition_whose_owner_has_finished_the_batch_is_not_stored_again_in_another_store(
    here: Settings, tmp_path: Path
) -> None:
    """The batch was stored, and one owner has committed past it. Then the store was lost."""
    intent = await left_behind(here, landed=True, past=[0])
    copy_migrated(tmp_path / "another")
    other = here.model_copy(update={"clickhouse_url": f"chdb:{tmp_path}/another"})
    others = here.topic_partitions - 1
    async with sinking(other) as sink:
        await sink.until_committed(other)
        await assert_exact(sink.store, others * (EACH - FIRST - 1) + EACH - LAST - 1)
        assert await sink.scalar("SELECT min(kafka_offset) FROM tool_metrics WHERE kafka_partition = 0") == LAST + 1
    async with sinking(other, rewind=True) as sink:
        await sink.until_count(good(here))
        await sink.until_committed(other)
        await assert_exact(sink.store, good(here))
    assert len(intent.ranges) == here.topic_partitions


async def test_records_that_kafka_has_deleted_since_do_not_stop_the_replay(here: Settings) -> None:
    await left_behind(here, landed=False)
    admin = AIOKafkaAdminClient(**here.kafka.options())
    await admin.start()
    try:
        places = {
            TopicPartition(here.topics.executions, 0): FIRST + 8,
            TopicPartition(here.topics.executions, 1): LAST + 5,
        }
        await admin.delete_records({place: RecordsToDelete(before_offset=before) for place, before in places.items()})
    finally:
        await admin.close()
    async with sinking(here) as sink:
        await sink.until_committed(here)
        deleted = (8 - 1) + (LAST + 5 - FIRST - 1)
        await assert_exact(sink.store, good(here) - deleted)


@pytest.mark.deep
async def test_sinks_that_come_and_go_under_load_store_every_event_once(
    there: Settings, server: ClickHouseServer
) -> None:
    """Each rebalance cancels the batches that run, before or after their insert, and moves their partitions."""
    chance = random.Random(3)
    hasty = WriterLimits(batch_rows=300, batch_age_s=0.02, finish_s=0.0)
    server.order("slow-0.05")
    producing = asyncio.create_task(produce(there, load(12_000)))
    replays = 0.0
    async with sinking(there, limits=hasty) as stays:
        for _ in range(4):
            async with AsyncExitStack() as stack:
                second = await stack.enter_async_context(sinking(there, stays.store, limits=hasty))
                await until(lambda sink=second: _ready(sink), "ready")  # type: ignore[misc]
                await asyncio.sleep(chance.uniform(0.1, 0.6))
            replays += second.metric("switchgear_sink_replayed_batches_total")
        await producing
        server.order("ok")
        await stays.until_committed(there)
        replays += stays.metric("switchgear_sink_replayed_batches_total")
        assert replays > 0, "some batches were to be cut short"
        await assert_exact(stays.store, 12_000)
