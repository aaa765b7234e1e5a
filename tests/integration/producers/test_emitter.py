"""The emitter against a real broker: every acknowledged event is in the log, once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from switchgear import Emitter, Event, Switchgear, SwitchgearError
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.execution import ToolExecution
from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import load_settings
from tests.support.deep import some
from tests.support.delivered import assert_each_arrived, assert_each_once, assert_in_order, number_of
from tests.support.kafka import own_kafka
from tests.support.limits import ANSWER_S, HAPPEN_S, READY_S
from tests.support.waiting import auntil, until


@pytest.fixture
def emitter(settings):
    made = Emitter(settings.kafka, topic_prefix=settings.topic_prefix, service="test")
    yield made
    made.close(10)


async def read(settings):
    """Every record of the executions topic."""
    consumer = AIOKafkaConsumer(settings.topics.executions, **settings.kafka.options(), auto_offset_reset="earliest")
    await consumer.start()
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        records = []
        deadline = time.monotonic() + HAPPEN_S
        while len(records) < sum(ends.values()) and time.monotonic() < deadline:
            for batch in (await consumer.getmany(timeout_ms=500, max_records=20_000)).values():
                records.extend(batch)
        return records
    finally:
        await consumer.stop()


def execution(tool: str, number: int = 0) -> tuple[str, bytes]:
    value = {"tool_name": tool, "status": "success", "metric_id": mint_metric_id(), "metadata": {"number": number}}
    return tool, json.dumps(value).encode()


async def test_an_event_arrives_complete_under_its_tools_key_on_its_owners_partition(settings, emitter):
    emitter.emit(Event("search", "success", 12.5, user_id="u"))
    assert await emitter.aflush(ANSWER_S)
    (record,) = await read(settings)
    assert record.key == b"search"
    assert record.partition == owner_partition("search", 4)
    found = ToolExecution.model_validate_json(record.value)
    assert (found.tool_name, found.execution_time_ms, found.user_id) == ("search", 12.5, "u")
    assert (found.service, found.emitter_id) == ("test", emitter.emitter_id)
    assert abs(found.recorded_at.timestamp() - time.time()) < 30


@pytest.mark.deep
async def test_a_hundred_thousand_events_of_four_threads_arrive_exactly_once_in_order_of_each_tool(settings):
    emitter = Emitter(settings.kafka, topic_prefix=settings.topic_prefix, buffer_size=200_000)

    def produce(base: int):
        for number in range(base, base + 25_000):
            emitter.emit(Event(f"tool-{base}-{number % 5}", "success", metadata={"number": number}))

    def work():
        threads = [threading.Thread(target=produce, args=(base,)) for base in range(0, 100_000, 25_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HAPPEN_S)
        assert emitter.flush(HAPPEN_S)
        assert emitter.close()

    await asyncio.to_thread(work)
    status = emitter.status()
    assert (status.emitted, status.acknowledged, status.dropped, status.failed) == (100_000, 100_000, 0, 0)
    records = await read(settings)
    assert_each_once(records, range(100_000))
    assert_in_order(records)


async def test_awaited_sends_are_acknowledged(settings, emitter):
    await asyncio.gather(*(emitter.send(*execution(f"t{number % 7}", number)) for number in range(3_000)))
    assert emitter.status().acknowledged == 3_000
    assert_each_once(await read(settings), range(3_000))


async def test_several_event_loops_share_one_emitter(settings, emitter):
    def loop(base: int):
        async def work():
            await asyncio.gather(*(emitter.send(*execution("t", number)) for number in range(base, base + 200)))

        asyncio.run(work())

    await asyncio.gather(*(asyncio.to_thread(loop, base) for base in (0, 200, 400)))
    assert_each_once(await read(settings), range(600))


async def test_submitted_bytes_go_as_they_are_in_order(settings, emitter):
    chunks = [[execution("t", number) for number in range(start, start + 100)] for start in range(0, 1_000, 100)]
    receipts = [await asyncio.wrap_future(future) for future in [emitter.submit(chunk) for chunk in chunks]]
    assert [receipt.acknowledged for receipt in receipts] == [100] * 10
    assert all(receipt.complete and not receipt.refused for receipt in receipts)
    assert [record.value for record in await read(settings)] == [value for chunk in chunks for _, value in chunk]


async def test_the_first_event_after_a_pause_does_not_linger(settings):
    emitter = Emitter(settings.kafka, topic_prefix=settings.topic_prefix, linger_s=5.0)
    assert await asyncio.to_thread(emitter.connect, 20)
    began = time.perf_counter()
    emitter.emit(Event("t", "success"))
    await auntil(lambda: emitter.status().acknowledged, HAPPEN_S)
    assert time.perf_counter() - began < 2
    emitter.emit(Event("t", "success"))
    await asyncio.sleep(0.3)
    assert emitter.status().acknowledged == 1, "the next one lingers"
    emitter.emit(Event("t", "rejected", probe_requested=True), urgent=True)
    began = time.perf_counter()
    await auntil(lambda: emitter.status().acknowledged == 3, HAPPEN_S)
    assert time.perf_counter() - began < 2, "an urgent one takes it along at once"
    await asyncio.to_thread(emitter.close)


@pytest.mark.parametrize("size", [4_194_250, 6_000_000], ids=["refused by the broker", "refused here"])
async def test_an_oversized_event_is_refused_by_name_and_the_others_are_sent(settings, emitter, size):
    big = (
        "t",
        json.dumps({"tool_name": "t", "status": "success", "metadata": {"number": -1, "x": ""}})
        .encode()
        .replace(b'""', b'"' + b"x" * (size - 80) + b'"'),
    )
    records = [execution("t", number) for number in range(20)]
    receipt = await asyncio.wrap_future(emitter.submit([*records[:10], big, *records[10:]]))
    assert receipt.acknowledged == 20
    ((index, reason),) = receipt.refused
    assert index == 10
    assert "MessageSizeTooLarge" in reason or "the limit is" in reason
    with pytest.raises(SwitchgearError, match="was not accepted"):
        await emitter.send(*big)
    await asyncio.gather(*(emitter.send(*execution(f"t{number}", number)) for number in range(20, 40)))
    assert_each_once(await read(settings), range(40))
    assert emitter.status().failed == 2


async def narrow(kafka):
    """Make a topic that takes batches of up to 20,000 bytes."""
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # noqa: PLC0415 - of these tests alone

    settings = kafka.settings()
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()
    await admin.create_topics(
        [NewTopic(settings.topics.executions, 1, 1, topic_configs={"max.message.bytes": "20000"})]
    )
    await admin.close()
    return settings


@pytest.mark.deep
async def test_a_topic_that_takes_only_small_batches_gets_every_event_once(kafka):
    settings = await narrow(kafka)
    with Switchgear(kafka.bootstrap, topic_prefix=settings.topic_prefix) as gear:
        search = gear.guard("search")(lambda: "found")
        search()
        assert await asyncio.to_thread(gear.flush, 20)
        for _ in range(3):
            for _ in range(2_000):
                search()
            assert await asyncio.to_thread(gear.flush, 60)
        assert gear.status().emitter.acknowledged == 6_001
    found = [json.loads(record.value)["metric_id"] for record in await read(settings)]
    assert len(found) == len(set(found)) == 6_001


async def test_the_record_that_the_topic_refuses_is_found_among_small_ones(kafka):
    """The topic's limit is below a batch: its records go one by one, and the one that is too large is refused."""
    settings = await narrow(kafka)
    emitter = Emitter(settings.kafka, topic_prefix=settings.topic_prefix)
    records = [execution("t", number) for number in range(100)]
    big = (
        "t",
        json.dumps({"tool_name": "t", "status": "success", "metadata": {"number": -1, "x": "y" * 30_000}}).encode(),
    )
    receipt = await asyncio.wrap_future(emitter.submit([*records[:50], big, *records[50:]]))
    assert (receipt.acknowledged, [index for index, _ in receipt.refused]) == (100, [50])
    assert_each_once(await read(settings), range(100))
    await asyncio.to_thread(emitter.close)


async def test_dicts_that_are_not_executions_are_counted_and_the_others_are_sent(settings, emitter):
    emitter.emit({"status": "success"})
    emitter.emit({"tool_name": "t", "status": "success", "metadata": {"number": 1}, "colour": "blue"})
    assert await emitter.aflush(ANSWER_S)
    assert (emitter.status().failed, emitter.status().acknowledged) == (1, 1)
    (record,) = await read(settings)
    assert json.loads(record.value)["colour"] == "blue"


async def test_a_topic_that_does_not_exist_is_named_and_used_once_it_exists(kafka):
    settings = kafka.settings()
    emitter = Emitter(settings.kafka, topic_prefix=settings.topic_prefix)
    emitter.emit(Event("t", "success", metadata={"number": 1}))
    await auntil(lambda: emitter.status().last_error, HAPPEN_S)
    assert "switchgear topics ensure" in (emitter.status().last_error or "")
    await ensure_topics(settings)
    assert await emitter.aflush(HAPPEN_S)
    assert_each_once(await read(settings), [1])
    await asyncio.to_thread(emitter.close)


def test_the_last_events_are_sent_when_the_interpreter_ends(settings):
    code = f"""
from switchgear import Emitter, Event
from switchgear_schemas.connection import KafkaConnection
emitter = Emitter({settings.kafka_bootstrap_servers!r}, topic_prefix={settings.topic_prefix!r})
assert emitter.connect(30)
for number in range(1000):
    emitter.emit(Event("t", "success", metadata={{"number": number}}))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=READY_S, capture_output=True)
    assert_each_once(asyncio.run(read(settings)), range(1_000))


@pytest.mark.parametrize("method", some(["fork", "forkserver", "spawn"], 1))
def test_a_child_of_multiprocessing_sends_its_last_events(settings, tmp_path, method):
    script = tmp_path / "main.py"
    script.write_text(f"""
import multiprocessing
from switchgear import Emitter, Event

emitter = Emitter({settings.kafka_bootstrap_servers!r}, topic_prefix={settings.topic_prefix!r}, exit_timeout=20)

def work(first):
    assert emitter.connect(30)
    for number in range(first, first + 100):
        emitter.emit(Event("t", "success", metadata={{"number": number}}))

if __name__ == "__main__":
    emitter.emit(Event("t", "success", metadata={{"number": 0}}))
    context = multiprocessing.get_context({method!r})
    children = [context.Process(target=work, args=(first,)) for first in (100, 200)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]
    assert emitter.close(20)
""")
    subprocess.run([sys.executable, str(script)], check=True, timeout=READY_S, capture_output=True)
    assert_each_once(asyncio.run(read(settings)), [0, *range(100, 300)])


async def test_a_flush_waits_only_for_events_emitted_before_it(settings, emitter):
    assert await asyncio.to_thread(emitter.connect, 20)
    going = threading.Event()

    def traffic():
        while not going.wait(0.001):
            emitter.emit(Event(f"t{time.time_ns() % 7}", "success", metadata={"number": -1}))

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        for number in range(20):
            emitter.emit(Event(f"t{number % 5}", "success", metadata={"number": number}))
            assert await emitter.aflush(ANSWER_S)
            found = set(map(number_of, await read(settings)))
            assert set(range(number + 1)) <= found, "what was flushed is in the log"
    finally:
        going.set()
        thread.join()


def test_parent_and_forked_child_both_send_their_own_events_once(settings):
    code = f"""
import os
from switchgear import Emitter, Event
emitter = Emitter({settings.kafka_bootstrap_servers!r}, topic_prefix={settings.topic_prefix!r})
assert emitter.connect(30)
for number in range(100):
    emitter.emit(Event("t", "success", metadata={{"number": number}}))
child = os.fork()
base = 1000 if child == 0 else 2000
for number in range(base, base + 100):
    emitter.emit(Event("t", "success", metadata={{"number": number}}))
ok = emitter.close(30)
if child == 0:
    os._exit(0 if ok else 1)
assert ok and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=READY_S, capture_output=True)
    expected = [*range(100), *range(1000, 1100), *range(2000, 2100)]
    assert_each_once(asyncio.run(read(settings)), expected)


@pytest.mark.deep
def test_a_broker_that_starts_late_and_restarts_gets_every_event_in_order_with_copies_marked(tmp_path: Path):
    """The broker is down at the start, and restarts under load. Nothing is lost, and copies are marked as resent."""
    port = any_free_port()
    settings = load_settings(kafka_bootstrap_servers=f"127.0.0.1:{port}", topic_prefix="bounce.", topic_partitions=4)
    emitter = Emitter(settings.kafka, topic_prefix=settings.topic_prefix, buffer_size=1_000_000)
    stop = threading.Event()
    emitted = 0

    def produce():
        nonlocal emitted
        while not stop.is_set():
            emitter.emit(Event(f"t{emitted % 5}", "success", metadata={"number": emitted}))
            emitted += 1
            if emitted % 20 == 0:
                time.sleep(0.005)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        time.sleep(0.5)
        broker = own_kafka(tmp_path / "kafka", port)
        broker.start()
        try:
            asyncio.run(ensure_topics(settings))
            for _ in range(2):
                until(lambda: emitter.status().connected, HAPPEN_S)
                time.sleep(1.0)
                broker.stop()
                time.sleep(0.7)
                broker.start()
            until(lambda: emitter.status().connected, HAPPEN_S)
            time.sleep(1.0)
            stop.set()
            producer.join(ANSWER_S)
            assert emitter.flush(HAPPEN_S), emitter.status()
            status = emitter.status()
            assert (status.acknowledged, status.dropped, status.failed) == (emitted, 0, 0)
            records = asyncio.run(read(settings))
            assert_each_arrived(records, range(emitted))
            assert_in_order(records)
            assert emitter.close()
        finally:
            broker.stop()
    finally:
        stop.set()
        producer.join(ANSWER_S)
        emitter.close(0)
