"""Reading a batch again while no broker answers."""

import asyncio

import pytest
from structlog.testing import capture_logs

from switchgear_schemas.connection import KafkaConnection
from switchgear_sinks.writer.intents import Intent, Range
from switchgear_sinks.writer.offset_commits import CommittedOffsets
from switchgear_sinks.writer.replay import RangeReader
from tests.support.left_open import none_left_open


async def test_a_batch_is_tried_again_without_a_broker_and_each_attempt_closes_its_consumer(monkeypatch):
    monkeypatch.setattr("switchgear_sinks.writer.replay._WAIT_S", 0.0)
    away = KafkaConnection("127.0.0.1:1")
    read = RangeReader(away, CommittedOffsets(away, "sinks"), {})
    with none_left_open(), capture_logs() as logs, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await read("executions", Intent.naming([Range(0, 0, 9, 1)]), [0])
    assert len(logs) > 1
    assert {each["event"] for each in logs} == {"a batch can't be read again yet"}
