"""No record of a topic stops the worker. The same process counts the next record within seconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from switchgear.fleet import Row
from switchgear_schemas import DeadLetter
from switchgear_schemas.headers import RESENT
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.settings import Settings
from switchgear_stream.inspect import read_rows
from tests.support.fleet import event
from tests.support.processes import Child
from tests.support.raw_batches import RawRecord, batch, compressed, payload, produce_raw
from tests.support.stream import dead_letters, emit, eventually, metric, send

TOOL = "search"
HERE = owner_partition(TOOL, 4)
_LIMIT = "max.message.bytes"


async def put(settings: Settings, topic: str, *records: dict[str, Any], compression: str | None = None) -> None:
    """Write records unchanged, each in its own batch."""
    producer = AIOKafkaProducer(
        **settings.kafka.options(), acks="all", compression_type=compression, max_request_size=100_000_000,
        max_batch_size=1,
    )  # fmt: skip
    await producer.start()
    try:
        for record in records:
            await producer.send_and_wait(topic, **({"value": event(), "partition": HERE} | record))
    finally:
        await producer.stop()


async def counted(settings: Settings, calls: int, tool: str = TOOL) -> Row:
    """The tool's row, once it has so many calls."""

    async def look() -> Row | None:
        row = (await read_rows(settings)).get(tool)
        return row if row is not None and row.total_calls >= calls else None

    row = await eventually(look, what=f"{calls} calls of {tool!r}")
    assert row.total_calls == calls
    return row


async def letters(settings: Settings, count: int) -> list[DeadLetter]:
    async def look() -> Sequence[DeadLetter] | None:
        found = {letter.key: letter for letter in await dead_letters(settings)}
        return sorted(found.values(), key=lambda each: each.key) if len(found) >= count else None

    found = list(await eventually(look, what=f"{count} dead letters"))
    assert len(found) == count
    return found


async def limit(settings: Settings, topic: str, max_bytes: int) -> None:
    """Set a smaller limit for a topic, as an operator may, and wait until the broker has it: the controller answers first."""
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()

    async def is_known() -> bool:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((_, _, _, _, configs),) = answer.resources
        return (_LIMIT, str(max_bytes)) in [(name, value) for name, value, *_ in configs]

    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={_LIMIT: str(max_bytes)})])
        await eventually(is_known, what=f"{_LIMIT} of {topic}")
    finally:
        await admin.close()


def large(headers: Iterable[tuple[str, bytes]] = (), **fields: Any) -> dict[str, Any]:
    return {"key": TOOL.encode(), "headers": list(headers), **fields}


async def test_one_execution_of_20_mb_that_gzip_makes_small_is_a_truncated_dead_letter(settings, start_worker):
    worker = start_worker(settings)
    value = event(metadata={"pad": "x" * 20_000_000})
    await put(settings, settings.topics.executions, large(value=value), large(), compression="gzip")
    await counted(settings, 1)
    (letter,) = await letters(settings, 1)
    assert (letter.truncated, letter.value_bytes, letter.body) == (True, len(value), value[:65_536])
    assert worker.alive


async def test_a_key_of_3_mb_and_a_large_header_in_the_wrong_partition_are_counted(settings, start_worker):
    worker = start_worker(settings)
    elsewhere = (HERE + 1) % 4
    await put(
        settings,
        settings.topics.executions,
        large(key=bytes(3_000_000)),
        large(key=bytes(3_000_000), partition=elsewhere),
        large(headers=[("x", bytes(3_500_000))], partition=elsewhere),
        large(headers=[(f"h{number}", bytes(100)) for number in range(20_000)], partition=elsewhere),
        large(headers=[(RESENT, bytes(3_000_000))], partition=elsewhere),
        large(key=bytes(3_000_000), value=b"bad"),
        large(),
    )
    await counted(settings, 6)
    (letter,) = await letters(settings, 1)
    assert (letter.key_bytes, letter.body) == (3_000_000, b"bad")
    assert worker.alive


async def test_topics_with_smaller_limits_stop_no_worker(settings, start_worker):
    worker = start_worker(settings)
    elsewhere = (HERE + 1) % 4
    await put(
        settings, settings.topics.executions, large(value=event(metadata={"pad": "y" * 900_000}), partition=elsewhere)
    )
    await counted(settings, 1)
    await limit(settings, settings.topics.executions, 300_000)
    await limit(settings, settings.topics.dead, 1_200)
    big = event(metadata={"pad": "z" * 900_000})
    await put(settings, settings.topics.executions, large(value=big, partition=elsewhere), compression="gzip")
    await put(
        settings,
        settings.topics.executions,
        large(value=bytes(200_000), key=bytes(5_000)),
        large(value=b"small"),
        large(),
    )
    await counted(settings, 2)
    found = await letters(settings, 2)
    copy = next(letter for letter in found if letter.partition == elsewhere)
    assert "refuses a copy" in copy.reason
    assert (copy.value_bytes, copy.body) == (len(big), b"")
    assert metric(worker, "switchgear_worker_dead_letters_refused_total") == 1
    assert worker.alive


def published(**fields: Any) -> bytes:
    record = {
        "circuit_id": TOOL, "tool_name": TOOL, "state": "open", "version": 7, "generation": 3,
        "changed_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return json.dumps(record | fields).encode()


async def test_a_take_over_ignores_garbage_in_the_state_topics_and_keeps_it_as_dead_letters(settings, start_worker):
    await emit(settings, [{"tool_name": TOOL, "status": "success"}] * 3)
    before = start_worker(settings)
    await counted(settings, 3)
    before.__exit__()
    row = Row(circuit_id=TOOL, tool_name=TOOL, applied=99, total_calls=50, clock=1e300).encode()
    rows = [
        {"key": b"\xff\xfe", "value": b"junk"},
        {"key": TOOL.encode(), "value": b"\x01" + b"\xff" * 50},
        {"key": TOOL.encode(), "value": b"\x09" + row[1:]},
        {"key": TOOL.encode(), "value": row},
        {"key": TOOL.encode(), "value": bytes(3_000_000)},
        {"key": b"\xff%d" % HERE, "value": b"\x01" + bytes(20)},
        {"key": b"\x00mark", "value": b"x"},
    ]
    circuits = [
        {"key": b"\xff", "value": b"junk"},
        {"key": TOOL.encode(), "value": published(version=2**80)},
        {"key": TOOL.encode(), "value": published(changed_at="0001-01-01T00:00:00Z")},
        {"key": TOOL.encode(), "value": published(state="ajar")},
        {"key": b"other", "value": published()},
        {"key": TOOL.encode(), "value": published(), "partition": (HERE + 1) % 4},
        {"key": TOOL.encode(), "value": b"[" * 500_000},
    ]
    await put(settings, settings.topics.changelog, *rows)
    await put(settings, settings.topics.circuits, *circuits)
    odd = batch(payload([RawRecord(b"v", b"k", [(b"\xff", b"x")])]), 1)
    for topic in (settings.topics.changelog, settings.topics.circuits):
        await produce_raw(settings, topic, HERE, [odd])
    worker = start_worker(settings)
    await emit(settings, [{"tool_name": TOOL, "status": "success"}] * 2)
    await counted(settings, 5)
    found = await letters(settings, len(rows) + len(circuits) + 2)
    assert {letter.topic for letter in found} == {settings.topics.changelog, settings.topics.circuits}
    unreadable = "switchgear_worker_unreadable_state_records_total"
    assert metric(worker, f'{unreadable}{{topic="{settings.topics.changelog}"}}') == len(rows) + 1
    assert metric(worker, f'{unreadable}{{topic="{settings.topics.circuits}"}}') == len(circuits) + 1
    assert worker.alive


async def test_a_tool_named_like_a_changelog_mark_keeps_its_count_when_its_partition_moves(settings, start_worker):
    name = "\x00mark"
    await emit(settings, [{"tool_name": name, "status": "success"}] * 3)
    before = start_worker(settings)
    await counted(settings, 3, name)
    before.__exit__()
    start_worker(settings)
    await emit(settings, [{"tool_name": name, "status": "success"}] * 2)
    await counted(settings, 5, name)


def bomb(value: bytes, codec: str, headers: int = 0) -> bytes:
    record = RawRecord(value, TOOL.encode(), [(b"", None)] * headers)
    return batch(compressed(payload([record]), codec), 1, codec)


@pytest.mark.deep
async def test_a_batch_that_unpacks_to_gigabytes_and_one_with_invalid_header_names_are_dead_letters(
    settings, start_worker
):
    worker = start_worker(settings)
    large = bytes(100_000_000)
    odd = batch(payload([RawRecord(event(), TOOL.encode(), [(b"\xff\xfe", b"x")])]), 1)
    bombs = [bomb(large, codec) for codec in ("gzip", "lz4", "zstd")]
    many = bomb(b"", "zstd", headers=3_000_000)
    await produce_raw(settings, settings.topics.executions, HERE, [*bombs, many, odd])
    await put(settings, settings.topics.executions, {})
    await counted(settings, 1)
    found = await letters(settings, 5)
    assert sum("unpacks to more than" in letter.reason for letter in found) == 3
    assert sum("headers allowed" in letter.reason for letter in found) == 1
    assert worker.alive


@pytest.mark.deep
async def test_hundreds_of_records_that_unpack_to_gigabytes_together_take_little_memory(settings, start_worker):
    worker = start_worker(settings)
    value = event(metadata={"pad": "x" * 20_000_000})
    await produce_raw(settings, settings.topics.executions, HERE, [bomb(value, "gzip")] * 60)
    await put(settings, settings.topics.executions, {})
    await counted(settings, 1)
    found = await letters(settings, 60)
    assert {letter.value_bytes for letter in found} == {len(value)}
    assert peak_mb(worker) < 600


@pytest.mark.deep
async def test_state_topics_whose_records_unpack_to_gigabytes_together_take_little_memory_in_a_take_over(
    settings, start_worker
):
    packed = [bomb(bytes(20_000_000), "zstd")] * 25
    for topic in (settings.topics.changelog, settings.topics.circuits):
        await produce_raw(settings, topic, HERE, packed)
    worker = start_worker(settings)
    await put(settings, settings.topics.executions, {})
    await counted(settings, 1)
    assert {letter.value_bytes for letter in await letters(settings, 50)} == {20_000_000}
    assert peak_mb(worker) < 400


def peak_mb(worker: Child) -> float:
    """Return the peak memory of the process and its children."""
    processes = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
    lines = [line for each in processes for line in Path(f"/proc/{each.pid}/status").read_text().splitlines()]
    return max(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@pytest.mark.deep
async def test_ten_thousand_bad_records_in_a_row_hold_up_a_good_one_for_seconds_and_take_few_lines_of_the_log(
    settings, start_worker
):
    worker = start_worker(settings)
    lines = len(worker.output().splitlines())
    messages = [(TOOL.encode(), b'{"tool_name":"search","status":%d}' % number, HERE) for number in range(10_000)]
    await send(settings, settings.topics.executions, [*messages, (TOOL.encode(), event(), HERE)])
    await counted(settings, 1)
    await letters(settings, 10_000)
    assert len(worker.output().splitlines()) - lines < 30
