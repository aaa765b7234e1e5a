"""The alerts topic: what is saved is written, or the transaction is aborted."""

import asyncio
import contextlib

import pytest
from aiokafka.errors import KafkaConnectionError, LeaderNotAvailableError

from switchgear_alerts.state_topic import StateTopic
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.topics import TopicNames
from tests.support.left_open import none_left_open


class Producer:
    """A producer whose commit, as that of aiokafka, doesn't look at the errors of its records."""

    def __init__(self, *errors):
        self.errors, self.ended = list(errors), ""

    @contextlib.asynccontextmanager
    async def transaction(self):
        try:
            yield
        except BaseException:
            self.ended = "aborted"
            raise
        self.ended = "committed"

    async def send(self, _topic, **_record):
        future = asyncio.get_running_loop().create_future()
        error = self.errors.pop(0)
        asyncio.get_running_loop().call_soon(future.set_result if error is None else future.set_exception, error)
        return future


async def saved(monkeypatch, *errors):
    """Save a value and an offset, and return the producer."""
    producer = Producer(*errors)
    monkeypatch.setattr("switchgear_alerts.state_topic.AIOKafkaProducer", lambda **_: producer)
    topic = StateTopic(KafkaConnection(), TopicNames())
    try:
        await topic.save({"circuit:search": b"{}"}, {0: 5})
    finally:
        assert producer.errors == []
        assert producer.ended == ("committed" if not any(errors) else "aborted")


async def test_a_transaction_whose_records_are_all_written_is_committed(monkeypatch):
    await saved(monkeypatch, None, None)


async def test_a_record_that_is_not_written_fails_and_aborts_the_transaction(monkeypatch):
    with pytest.raises(LeaderNotAvailableError):
        await saved(monkeypatch, None, LeaderNotAvailableError())


async def test_a_topic_that_no_broker_opens_leaves_no_connection():
    with none_left_open(), pytest.raises(KafkaConnectionError):
        async with StateTopic(KafkaConnection("127.0.0.1:1"), TopicNames()):
            pass
