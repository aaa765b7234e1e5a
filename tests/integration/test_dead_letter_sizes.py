"""A dead letter reaches its topic whatever the message was, and whatever the topic's operator allows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from switchgear_schemas import DeadLetter
from switchgear_schemas.dead_letter import send_letters
from switchgear_schemas.enums import MAX_LETTER_BYTES
from switchgear_schemas.settings import Settings
from switchgear_stream.topic_reader import read_to_end


@pytest.fixture
async def producer(settings: Settings) -> AsyncIterator[AIOKafkaProducer]:
    made = AIOKafkaProducer(
        **settings.kafka.options(), acks="all", max_request_size=2 * MAX_LETTER_BYTES, max_batch_size=524_288
    )
    await made.start()
    yield made
    await made.stop()


def letter(offset: int, value: bytes, **fields) -> DeadLetter:
    return DeadLetter("executions", 0, offset, 5, "too large", "worker", value=value, **fields).truncate()


async def topic_of(settings: Settings, max_bytes: int) -> str:
    """A dead-letter topic as an operator may make it, of one partition."""
    name = f"{settings.topics.dead}.{max_bytes}"
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 1, 1, topic_configs={"max.message.bytes": str(max_bytes)})])
    finally:
        await admin.close()
    return name


async def found(settings: Settings, topic: str) -> list[DeadLetter]:
    records = [record async for record in read_to_end(settings, topic, [0])]
    return sorted(
        (DeadLetter.from_record(record.value, record.headers) for record in records), key=lambda each: each.offset
    )


async def test_the_dead_letter_topic_takes_every_truncated_letter(settings, producer):
    letters = [
        letter(1, bytes(20_000_000), original_key=bytes(3_000_000)),
        letter(2, bytes(MAX_LETTER_BYTES - 5_000), original_key=bytes(3_000)),
        letter(3, bytes(MAX_LETTER_BYTES - 1_000_000), original_key=bytes(3_000_000), field="f" * 100_000),
    ]
    assert await send_letters(producer, settings.topics.dead, letters) == []
    every = [
        DeadLetter.from_record(record.value, record.headers)
        async for record in read_to_end(settings, settings.topics.dead)
    ]
    assert sorted(every, key=lambda each: each.offset) == letters


async def test_a_topic_that_takes_less_gets_the_large_letters_without_their_value(settings, producer):
    topic = await topic_of(settings, 100_000)
    letters = [letter(number, b"%d" % number * 50_000) for number in range(1, 20)]
    assert await send_letters(producer, topic, letters) == []
    assert await send_letters(producer, topic, [letter(30, b"after")]) == []
    *kept, after = await found(settings, topic)
    assert [each.offset for each in kept] == list(range(1, 20))
    assert kept[:9] == letters[:9], "of 50,000 bytes: whole, though many of them in one batch were too much"
    assert [each.value_bytes for each in kept[9:]] == [100_000] * 10
    assert kept[9:] == [each.without_value() for each in letters[9:]]
    assert after.body == b"after"


async def test_a_letter_that_no_topic_takes_is_returned_and_the_next_letter_is_sent(settings, producer):
    topic = await topic_of(settings, 1_200)
    large = letter(1, b"x", original_key=bytes(4_000))
    assert await send_letters(producer, topic, [large, letter(2, b"y")]) == [large.without_value()]
    assert [each.offset for each in await found(settings, topic)] == [2]
