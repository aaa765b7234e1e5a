"""The consumer of a collector's topics, against a real broker."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from switchgear_gateway.otlp.grouping import CallWindow
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.kafka import OtlpTopics
from switchgear_gateway.otlp.submission import SubmitResult
from tests.support.limits import HAPPEN_S
from tests.support.waiting import auntil
from tests.unit.producers.gateway.otlp.support import MCP, SERVER, Kafka, log_request, sample, span_request
from tests.unit.producers.gateway.otlp.test_decoding import SPAN, as_json

SERVER_SPAN = {"id": 3, "parent": 2, "kind": SERVER, "attributes": MCP}


class Setting:
    """Topics of one test, a producer into them, and consumers of one group."""

    def __init__(self, connection, prefix, producer):
        self.connection, self.producer, self.group = connection, producer, f"{prefix}otlp"
        self.spans, self.logs = f"{prefix}otlp_spans", f"{prefix}otlp_logs"

    async def send(self, topic, *values):
        for value in values:
            await self.producer.send_and_wait(topic, value)

    @contextlib.asynccontextmanager
    async def consuming(self, kafka, *, window=None):
        ingest = Ingest(window)
        consumer = OtlpTopics(
            self.connection,
            ingest,
            kafka.sender(),
            group=self.group,
            topics={self.spans: "spans", self.logs: "logs"},
        )
        task = asyncio.create_task(consumer.run())
        try:
            await auntil(lambda: task.done() or consumer._assigned_at, HAPPEN_S)
            for partition in consumer._assigned_at:  # a new group begins at the end, which has to be known first
                await asyncio.wait_for(consumer._consumer.position(partition), HAPPEN_S)
            yield consumer
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def committed(self):
        reader = AIOKafkaConsumer(**self.connection.options(), group_id=self.group, enable_auto_commit=False)
        await reader.start()
        try:
            return await reader.committed(TopicPartition(self.spans, 0))
        finally:
            await reader.stop()


@pytest.fixture
async def topics(settings):
    producer, admin = AIOKafkaProducer(**settings.kafka.options()), AIOKafkaAdminClient(**settings.kafka.options())
    await producer.start()
    found = Setting(settings.kafka, settings.topic_prefix, producer)
    await admin.start()
    await admin.create_topics([NewTopic(name, 1, 1) for name in (found.spans, found.logs)])
    await admin.close()
    await found.send(found.spans, b"before the group began")
    await found.send(found.logs, b"before the group began")
    yield found
    await producer.stop()


async def test_spans_and_logs_are_taken_and_committed_and_broken_messages_are_skipped(topics):
    kafka = Kafka()
    async with topics.consuming(kafka) as consumer:
        log = log_request("codex.tool_result", {"tool_name": "shell", "success": "true", "call_id": "c"})
        await topics.send(topics.spans, sample("agent_framework").SerializeToString(), b"\xff\xff", as_json(SPAN))
        await topics.send(topics.logs, b"{broken", log.SerializeToString())
        await auntil(lambda: len(kafka.acknowledged) == 5, HAPPEN_S)
        await auntil(lambda: not consumer._uncommitted, HAPPEN_S)
        assert consumer.skipped == 2
    assert sorted(kafka.tools) == ["get_forecast"] * 3 + ["search", "shell"]
    assert await topics.committed() == 4


async def test_a_message_that_was_not_acknowledged_is_tried_again_and_not_committed_before(topics):
    kafka = Kafka(SubmitResult(retry_after_s=0.1), RuntimeError("no answer"))
    async with topics.consuming(kafka) as consumer:
        await topics.send(topics.spans, span_request({"id": 1}).SerializeToString())
        await auntil(lambda: not kafka.answers, HAPPEN_S)
        assert await topics.committed() in {None, 1}
        await auntil(lambda: len(kafka.acknowledged) == 1, HAPPEN_S)
        await auntil(lambda: not consumer._uncommitted, HAPPEN_S)
    assert await topics.committed() == 2
    assert kafka.resent == [True]


async def test_a_call_that_waits_is_read_again_by_the_next_process_if_this_one_dies(topics):
    first, second = Kafka(), Kafka()
    async with topics.consuming(first):
        await topics.send(topics.spans, span_request({"id": 9}).SerializeToString())
        await auntil(lambda: first.acknowledged, HAPPEN_S)
        await asyncio.sleep(1)
        await topics.send(topics.spans, span_request(SERVER_SPAN).SerializeToString())
        await asyncio.sleep(2)
    assert len(first.acknowledged) == 1
    async with topics.consuming(second, window=CallWindow(wait_s=0)):
        await auntil(lambda: second.acknowledged, HAPPEN_S)
    assert second.tools == ["mcp:agent:get_forecast"]
    assert second.resent == [True]
