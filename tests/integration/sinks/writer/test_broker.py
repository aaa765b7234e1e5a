"""The broker away, the topics missing, a name taken: the writer waits where waiting helps and says what is wrong where not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.settings import Settings, load_settings
from switchgear_sinks.writer import writer as writer_module
from tests.support.kafka import RunningKafka, own_kafka, unique_prefix
from tests.support.limits import HAPPEN_S
from tests.support.records import execution
from tests.support.sinking import Message, assert_exact, dead_letters, produce, sinking


async def run_to_its_end(settings: Settings) -> None:
    async with sinking(settings) as sink:
        await sink.task


@pytest.mark.deep
@pytest.mark.parametrize("instance_id", [None, "stable"])
async def test_a_broker_that_goes_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, instance_id: str | None
) -> None:
    port = any_free_port()
    settings = load_settings(
        kafka_bootstrap_servers=f"127.0.0.1:{port}",
        topic_prefix=unique_prefix(),
        topic_partitions=2,
        clickhouse_url=f"chdb:{tmp_path}/clickhouse",
    )
    with own_kafka(tmp_path / "kafka", port) as broker:
        await ensure_topics(settings)
        await produce(settings, [Message(execution()) for _ in range(2_000)])
        async with sinking(settings, instance_id=instance_id) as sink:
            await sink.until_count(2_000)
            await produce(settings, [Message(execution()) for _ in range(2_000)] + [Message(b"junk")])
            await asyncio.to_thread(broker.kill)
            await asyncio.sleep(3)
            assert not sink.task.done(), "it waits"
            broker.start()
            await produce(settings, [Message(execution()) for _ in range(1_000)])
            await sink.until_committed(settings)
            await assert_exact(sink.store, 5_000)
        assert len(await dead_letters(settings)) == 1


async def test_no_broker_at_the_start_is_an_error_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_START_LIMIT_S", 1.0)
    settings = load_settings(
        kafka_bootstrap_servers=f"127.0.0.1:{any_free_port()}", clickhouse_url=f"chdb:{tmp_path}/clickhouse"
    )
    with pytest.raises(BrokerUnavailableError, match=r"No Kafka broker answered at 127\.0\.0\.1:\d+\. Start it"):
        await run_to_its_end(settings)


@pytest.mark.deep
async def test_missing_topics_are_waited_for_and_then_named(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_START_LIMIT_S", 1.0)
    settings = kafka.settings(clickhouse_url=f"chdb:{tmp_path}/clickhouse")
    with pytest.raises(SwitchgearError, match=r"Kafka has no topic .*executions and no topic .*topics ensure"):
        await run_to_its_end(settings)
    monkeypatch.setattr(writer_module, "_START_LIMIT_S", 30.0)
    async with sinking(settings) as sink:
        await asyncio.sleep(1.5)
        await ensure_topics(settings)
        await produce(settings, [Message(execution()) for _ in range(10)])
        await sink.until_count(10)


async def two_under_one_name(settings: Settings) -> None:
    async with sinking(settings, instance_id="twin") as first:
        await produce(settings, [Message(execution()) for _ in range(500)])
        await first.until_count(500)
        async with sinking(settings, first.store, instance_id="twin") as second:
            await produce(settings, [Message(execution()) for _ in range(500)])
            await asyncio.wait({first.task, second.task}, timeout=HAPPEN_S, return_when=asyncio.FIRST_COMPLETED)


@pytest.mark.deep
async def test_two_sinks_under_the_same_name_end_with_a_sentence_and_the_next_sink_stores_every_row_once(
    make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """Each replaces the other, so either one can end, or both."""
    settings = make_settings(clickhouse_url=f"chdb:{tmp_path}/clickhouse")
    with pytest.raises(SwitchgearError, match=r"Another sink may run under the name twin"):
        await two_under_one_name(settings)
    async with sinking(settings, instance_id="twin") as sink:
        await sink.until_committed(settings)
        await assert_exact(sink.store, 1_000)
