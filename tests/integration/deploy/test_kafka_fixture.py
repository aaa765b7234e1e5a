"""What other integration tests stand on: a real broker with our topics, and a producer and a consumer on it."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.support.limits import ANSWER_S


async def test_a_produced_event_is_consumed_with_the_brokers_own_time(settings):
    topic = settings.topics.executions
    async with AIOKafkaProducer(**settings.kafka.options(), acks="all", enable_idempotence=True) as producer:
        sent = await producer.send_and_wait(topic, b"{}", key=b"mcp:a:b", timestamp_ms=1_000)
    async with AIOKafkaConsumer(topic, **settings.kafka.options(), auto_offset_reset="earliest") as consumer:
        got = await asyncio.wait_for(consumer.getone(), ANSWER_S)
    assert (got.key, got.value, got.partition, got.offset) == (b"mcp:a:b", b"{}", sent.partition, sent.offset)
    assert got.timestamp_type == 1  # LogAppendTime
    assert got.timestamp > 1_700_000_000_000


async def test_two_settings_never_share_a_topic(make_settings):
    assert make_settings().topics.executions != make_settings().topics.executions


async def test_a_consumer_group_works(settings):
    options = settings.kafka.options()
    async with AIOKafkaConsumer(
        settings.topics.circuits, **options, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(settings.topics.circuits, b"1", key=b"c")
        assert (await asyncio.wait_for(consumer.getone(), ANSWER_S)).value == b"1"
        await consumer.commit()
