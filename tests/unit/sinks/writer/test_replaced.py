"""Two sinks under one name: the one that is replaced again and again ends, with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.topics import TopicNames
from switchgear_sinks.store import Store, StoreLocation
from switchgear_sinks.writer import Writer, WriterMetrics
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def writer(clock: Clock) -> Writer:
    store = Store(StoreLocation.parse("http://localhost/metrics", Path()), 1)
    metrics = WriterMetrics(CollectorRegistry())
    return Writer(store, KafkaConnection(), TopicNames(), metrics, instance_id="twin", clock=clock)


def lose(writer: Writer, clock: Clock, times: int, apart_s: float) -> None:
    for _ in range(times):
        writer._count_unknown()
        clock.now += apart_s


def test_being_replaced_again_and_again_ends_the_writer(writer: Writer, clock: Clock) -> None:
    lose(writer, clock, 4, 0.25)
    writer._raise_failure()
    lose(writer, clock, 1, 0.25)
    with pytest.raises(SwitchgearError, match=r"replaced again and again\. Another sink may run under the name twin\."):
        writer._raise_failure()


def test_a_session_that_ends_now_and_then_is_no_twin(writer: Writer, clock: Clock) -> None:
    lose(writer, clock, 50, 15)
    writer._raise_failure()


def test_all_partitions_lost_at_once_are_one_loss(writer: Writer, clock: Clock) -> None:
    lose(writer, clock, 24, 0.001)
    writer._raise_failure()
    assert len(writer._unknown) == 1
