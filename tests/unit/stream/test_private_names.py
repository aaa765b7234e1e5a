"""The private parts of Faust and aiokafka that the worker uses. A version that changes them fails here, not in production."""

from __future__ import annotations

import inspect
from importlib.metadata import version

import aiokafka
import faust
import pytest
from aiokafka.consumer.fetcher import Fetcher
from faust.stores.memory import Store as MemoryStore
from faust.streams import Stream
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport import consumer as faust_consumer
from faust.transport.drivers import aiokafka as driver

from tests.support.table import table


def _parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def _source(function: object) -> str:
    return inspect.getsource(function)  # type: ignore[arg-type]


def test_faust_and_aiokafka_have_the_versions_that_we_rely_on():
    assert (version("faust-streaming"), version("aiokafka")) == ("0.15.3", "0.14.0")


@table(
    ("function", "parameters"),
    [
        (driver.Consumer._getmany, ["self", "active_partitions", "timeout"]),
        (driver.Consumer._add_gap, ["self", "tp", "offset_from", "offset_to"]),
        (driver.Consumer._new_offset, ["self", "tp"]),
        (driver.Consumer.perform_seek, ["self"]),
        (driver.Consumer.stop_flow, ["self"]),
        (driver.Consumer.verify_event_path, ["self", "now", "tp"]),
        (driver.Consumer.highwaters, ["self", "partitions"]),
        (driver.Consumer.position, ["self", "tp"]),
        (driver.AIOKafkaConsumerThread.seek_wait, ["self", "partitions"]),
        (driver.AIOKafkaConsumerThread.seek_to_beginning, ["self", "partitions"]),
        (driver.AIOKafkaConsumerThread.call_thread, ["self", "fun", "args", "kwargs"]),
        (driver.AIOKafkaConsumerThread._ensure_consumer, ["self"]),
        (aiokafka.AIOKafkaConsumer.pause, ["self", "partitions"]),
        (Recovery._build_highwaters, ["self", "consumer", "tps", "destination", "title"]),
        (Recovery._build_offsets, ["self", "consumer", "tps", "destination", "title"]),
        (Recovery._seek_offsets, ["self", "consumer", "tps", "offsets", "title"]),
        (Recovery.need_recovery, ["self"]),
        (faust.Table.apply_changelog_batch, ["self", "batch"]),
        (faust.Table.on_recovery_completed, ["self", "active_tps", "standby_tps"]),
        (faust.Table.on_key_set, ["self", "key", "value"]),
        (Stream.noack, ["self"]),
        (aiokafka.AIOKafkaProducer.send_batch, ["self", "batch", "topic", "partition"]),
        (aiokafka.AIOKafkaConsumer.seek_to_committed, ["self", "partitions"]),
    ],
)
def test_a_function_that_we_override_or_call_has_its_signature(function, parameters):
    assert _parameters(function) == parameters


def test_fausts_consumer_keeps_offsets_in_the_attributes_that_we_read():
    made = _source(faust_consumer.Consumer.__init__)
    for name in ("_acked = defaultdict(list)", "_acked_index = defaultdict(set)", "_read_offset = defaultdict("):
        assert name in made
    assert "_committed_offset = defaultdict(" in made


def test_faust_reads_the_mark_of_what_was_read_by_getitem():
    assert "get_read_offset = self._read_offset.__getitem__" in _source(faust_consumer.Consumer._drain_messages)


def test_faust_commits_what_new_offset_says():
    assert "self._new_offset(tp)" in _source(faust_consumer.Consumer._filter_committable_offsets)


def test_faust_makes_its_consumer_from_the_transports_class():
    assert "self.Consumer(" in _source(faust.transport.base.Transport.create_consumer)


@pytest.mark.slow
def test_the_table_hook_is_awaited_before_the_first_event():
    source = _source(Recovery.on_recovery_completed)
    assert source.index("table.on_recovery_completed(") < source.index("perform_seek") < source.index("resume_flow")
    assert source.index("perform_seek") < source.index("flow_control.resume()")


@pytest.mark.slow
def test_aiokafka_waits_at_the_broker_for_the_time_that_we_set():
    assert "self._fetch_max_wait_ms," in _source(Fetcher)
    assert "self._fetcher = Fetcher(" in _source(aiokafka.AIOKafkaConsumer.start)


def test_faust_recovers_in_the_steps_that_we_leave_out():
    source = _source(Recovery._restart_recovery.fun)
    steps = [
        "self._build_highwaters",
        "self._build_offsets",
        "self._seek_offsets",
        "self.need_recovery()",
        "self.on_recovery_completed",
    ]
    places = [source.index(step) for step in steps]
    assert places == sorted(places)
    assert "self._recovery = Recovery(" in _source(TableManager.recovery.fget)


def test_aiokafka_does_not_seek_where_nothing_is_committed():
    assert "if offset and offset > 0" in _source(aiokafka.AIOKafkaConsumer.seek_to_committed)


def test_the_memory_store_keeps_rows_and_their_partitions():
    source = _source(MemoryStore)
    assert "self._key_partition" in source
    assert "self.data.update(" in source
    assert "persisted_offset" in source


def test_faust_passes_the_generation_of_a_message_on():
    assert "consumer_generation_id" in _source(driver.Consumer._to_message)
    assert "generation_id" in inspect.signature(faust.types.ConsumerMessage).parameters
