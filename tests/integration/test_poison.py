"""A poisoned topic loses no good event, and each bad one is in the dead-letter topic with its reason."""

import json
import time

import pytest
from aiokafka import AIOKafkaProducer

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas import DeadLetter
from switchgear_schemas.partitioner import partition_of
from switchgear_stream.inspect import read_rows
from tests.support.limits import HAPPEN_S
from tests.support.processes import all_ended, run, switchgear
from tests.support.recount import read_topic

pytestmark = pytest.mark.deep

TOOL = "mcp:poisoned:tool"
GOOD_BETWEEN = 7


def event(**fields):
    return json.dumps({"tool_name": TOOL, "status": "success", **fields}).encode()


POISON = {  # value -> what the reason must say
    b"not JSON at all": "not JSON",
    b"\xff\xfe\x00": "not JSON",
    b"": "empty",
    None: "empty",
    b"[1, 2]": "Expected `object`",
    b"{}": "missing required field",
    b'{"tool_name":"x"}': "missing required field `status`",
    b'{"status":"error"}': "missing required field `tool_name`",
    event(tool_name=5): "Expected `str`",
    event(tool_name=""): "length >= 1",
    event(status="fine"): "Invalid enum value",
    event(execution_time_ms="fast"): "Expected `float",
    event(execution_time_ms=-1): ">= 0",
    event(input_size=1.5): "Expected `int",
    event(metric_id="seven"): "UUID",
    event(metadata=[]): "Expected `object",
    event(recorded_at="1970-01-01T00:00:00Z"): "between 2000 and 2100",
    event(recorded_at="2200-01-01T00:00:00Z"): "between 2000 and 2100",
    event(recorded_at="soon"): "RFC3339",
    event(metadata={"pad": "x" * 2_000_000}): "more than the 1048576 allowed",
    b'{"tool_name":"x","status":"error"': "not JSON",
}
ODD_BUT_GOOD = [  # (key, partition or None for the owner's, value)
    (None, None, event(service="null-key")),
    (None, "other", event(service="wrong-partition")),
    (TOOL.encode(), "other", event(service="wrong-partition", status="error")),
    (TOOL.encode(), None, event(service="unknown-fields", hue=7, nested={"deep": [1]})),
    (TOOL.encode(), None, b'{"tool_name":"mcp:poisoned:tool","status":"timeout"}'),
    (TOOL.encode(), None, event(session_id=None, error_type=None, metadata=None, service="nulls")),
]


async def poison(settings):
    """Good events with a bad one after every few, all in the tool's own partition; then the odd ones."""
    partitions = settings.topic_partitions
    own = partition_of(TOOL, partitions)
    good = 0
    async with AIOKafkaProducer(
        bootstrap_servers=settings.kafka_bootstrap_servers,
        max_request_size=4 << 20,
        acks="all",
        enable_idempotence=True,
    ) as producer:
        topic = settings.topics.executions
        for bad in POISON:
            for _ in range(GOOD_BETWEEN):
                await producer.send(topic, event(emitter_id="e1"), key=TOOL.encode(), partition=own)
                good += 1
            await producer.send(topic, bad, key=TOOL.encode(), partition=own)
        for key, partition, value in ODD_BUT_GOOD:
            await producer.send(topic, value, key=key, partition=own if partition is None else (own + 1) % partitions)
            good += 1
        await producer.flush()
    return good


async def test_good_events_are_counted_and_stored_and_bad_ones_kept_with_their_reason(make_settings, tmp_path):
    settings = make_settings(
        data_dir=tmp_path,
        clickhouse_url=f"chdb:{tmp_path / 'clickhouse'}",
        worker_http=f"127.0.0.1:{any_free_port()}",
    )
    good = await poison(settings)
    worker = switchgear("worker", log=tmp_path / "worker.log", settings=settings)
    sink = switchgear("sink", log=tmp_path / "sink.log", settings=settings)
    with all_ended(worker, sink):
        deadline = time.monotonic() + HAPPEN_S
        while time.monotonic() < deadline:
            row = (await read_rows(settings)).get(TOOL)
            if (
                row is not None
                and row.total_calls >= good
                and stored(settings) >= good
                and len(await letters(settings)) >= len(POISON)
            ):
                break
        # Counted: every good one once, wherever it first was; the wrongly keyed ones are not counted twice.
        assert (row.total_calls, row.total_failed) == (good, 2)
        # Stored: the same.
        assert stored(settings) == good
        assert one(settings, "SELECT countIf(service = 'wrong-partition'), uniqExact(metric_id) FROM tool_metrics") == [
            2,
            good,
        ]
        assert one(settings, "SELECT min(recorded_at) > now() - 3600 FROM tool_metrics") == [1]
        # Kept: each bad one byte for byte, with a reason that says what is wrong.
        found = await letters(settings)
        assert {letter.value for letter in found.values()} == set(POISON)
        for letter in found.values():
            assert POISON[letter.value] in letter.reason
            assert letter.topic == settings.topics.executions
        assert worker.alive
        assert sink.alive


async def letters(settings):
    """Dead letters by key: what two readers refused is one."""
    records = await read_topic(settings.kafka_bootstrap_servers, settings.topics.dead)
    return {record.key: DeadLetter.from_record(record.value, record.headers) for record in records}


def one(settings, statement):
    done = run("sql", statement, "--json", settings=settings)
    return json.loads(done.stdout)["rows"][0] if done.returncode == 0 else [0]


def stored(settings):
    return one(settings, "SELECT count() FROM tool_metrics")[0]
