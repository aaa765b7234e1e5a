"""The sink killed with SIGKILL under load, and what the next one makes of what it left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from aiokafka.structs import TopicPartition

from switchgear_api.service import _instance_of
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import open_store
from switchgear_sinks.writer.inserter import INSERT_SETTINGS
from switchgear_sinks.writer.intents import Intent, Range
from switchgear_sinks.writer.rows import ExecutionRows
from tests.support.engine import copy_migrated
from tests.support.groups import commit_by_hand
from tests.support.limits import ANSWER_S, READY_S
from tests.support.processes import Child, switchgear
from tests.support.records import execution
from tests.support.sinking import (
    Message,
    assert_exact,
    dead_letters,
    fully_committed,
    produce,
    read_topic,
    sinking,
    until,
)

EVENTS = 60_000
KILLS = 5
BAD_EVERY = 5_000


@pytest.fixture
def here(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    copy_migrated(tmp_path / "clickhouse")
    return make_settings(
        clickhouse_url=f"chdb:{tmp_path}/clickhouse", sink_batch_max_rows=1_500, sink_batch_max_age_s=0.05
    )


def load(count: int) -> list[Message]:
    found = []
    for place in range(count):
        tool = f"tool-{place % 30}"
        status = "error" if place % 7 == 0 else "success"
        value = b"junk" if place % BAD_EVERY == 0 else execution(tool, status=status, execution_time_ms=place % 900)
        found.append(Message(value, tool.encode()))
    return found


def one_range(first: int, last: int, stamp: int, partition: int = 1) -> Intent:
    """Return an intent of one partition."""
    return Intent((Range(partition, first, last, stamp),))


async def stored(settings: Settings) -> int:
    """Rows that the sink's API sees; -1 while it does not answer."""
    try:
        async with httpx.AsyncClient(timeout=ANSWER_S) as client:
            answer = await client.get(f"http://{settings.api_http}/v1/stored")
        return int(answer.raise_for_status().json()["events"])
    except (httpx.HTTPError, KeyError):
        return -1


@pytest.mark.deep
async def test_a_sink_killed_again_and_again_under_load_stores_every_event_once(here: Settings, tmp_path: Path) -> None:
    chance = random.Random(5)
    producing = asyncio.create_task(produce(here, load(EVENTS)))
    killed_mid_way = 0
    for attempt in range(KILLS):
        with switchgear("sink", log=tmp_path / f"sink-{attempt}.log", settings=here) as child:
            await asyncio.to_thread(child.wait_for_output, "partitions assigned")
            await asyncio.sleep(chance.uniform(0.0, 0.4))
            before = await stored(here)
            child.kill9()
            killed_mid_way += 0 <= before < EVENTS * (1 - 1 / BAD_EVERY)
    assert killed_mid_way >= KILLS // 2, "most kills were to hit a sink at work"
    await producing
    good = EVENTS - EVENTS // BAD_EVERY
    with switchgear("sink", log=tmp_path / "sink-last.log", settings=here) as child:
        await asyncio.to_thread(child.wait_for_output, "partitions assigned")
        await until(lambda: done(here, child), "everything committed", READY_S)
        assert child.terminate() == 0
    async with await open_store(here) as store:
        await assert_exact(store, good)
    assert len(await dead_letters(here)) == EVENTS // BAD_EVERY


async def done(settings: Settings, child: Child) -> bool:
    assert child.alive, child.output()
    return await fully_committed(settings)


@pytest.mark.parametrize("landed", [False, True], ids=["before the insert", "between insert and commit"])
async def test_pending_range_of_a_dead_owner_is_replayed_exactly(here: Settings, *, landed: bool) -> None:
    """What the dead one may have inserted is not inserted again; what it may not have is not lost."""
    await produce(here, [Message(execution(), partition=1) for _ in range(100)] + [Message(b"junk", partition=1)])
    log = sorted(await read_topic(here, here.topics.executions), key=lambda record: record.offset)
    intent = one_range(20, 59, log[20].timestamp)
    async with await open_store(here) as store:
        await migrate(store)
        earlier = [(one_range(0, 19, log[0].timestamp), log[:20])] + ([(intent, log[20:60])] if landed else [])
        for named, records in earlier:
            await store.raw_insert(
                "tool_metrics",
                b"\n".join(ExecutionRows().rows(records).values),
                settings=INSERT_SETTINGS | {"insert_deduplication_token": named.token(here.topics.executions)},
            )
    await commit_by_hand(here, {1: (20, intent.metadata())})
    async with sinking(here) as sink:
        await sink.until_committed(here)
        await assert_exact(sink.store, 100)
        assert sink.metric("switchgear_sink_replayed_batches_total") == 1
        assignment = sink.writer.assignment
        assert assignment is not None
        assert assignment.partitions[TopicPartition(here.topics.executions, 1)].landed == 101


@pytest.mark.deep
async def test_offsets_that_start_over_in_a_recreated_topic_are_new_events(here: Settings) -> None:
    """The same partition, the same offsets, the same names: only the broker's clock differs."""
    await produce(here, [Message(execution(), partition=0) for _ in range(10)])
    async with sinking(here) as sink:
        await sink.until_committed(here)
        log = await read_topic(here, here.topics.executions)
        records = sorted(log, key=lambda record: record.offset)
        token = one_range(0, 9, records[0].timestamp + 60_000, partition=0).token(here.topics.executions)
        await sink.store.raw_insert(
            "tool_metrics",
            b"\n".join(ExecutionRows().rows(records).values),
            settings=INSERT_SETTINGS | {"insert_deduplication_token": token},
        )
        assert await sink.scalar("SELECT count() FROM tool_metrics") == 20


@pytest.mark.deep
async def test_sink_stops_quickly_and_cleanly_under_load(here: Settings, tmp_path: Path) -> None:
    producing = asyncio.create_task(produce(here, load(30_000)))
    with switchgear("sink", log=tmp_path / "sink.log", settings=here) as child:
        await asyncio.to_thread(child.wait_for_output, "partitions assigned")
        await asyncio.sleep(0.3)
        started = asyncio.get_running_loop().time()
        assert await asyncio.to_thread(child.terminate) == 0
        assert asyncio.get_running_loop().time() - started < 20, "on a quiet machine it takes about a second"
        assert "stopped" in child.output()
    await producing
    async with (  # under the dead one's name: no wait for the end of its session
        await open_store(here) as store,
        sinking(here, store, instance_id=_instance_of(store)) as sink,
    ):
        await sink.until_committed(here)
        await assert_exact(store, 30_000 - 30_000 // BAD_EVERY)
