"""Whatever stands in a topic: each record is stored or a dead letter, exactly one of both, and the next one is processed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from structlog.testing import capture_logs

from switchgear_schemas import headers, wire
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.settings import Settings
from tests.support.deep import some
from tests.support.engine import copy_migrated
from tests.support.limits import ANSWER_S
from tests.support.odd_values import NAMES, NUMBERS, TIMES, odd_executions
from tests.support.raw_batches import RawRecord, batch, compressed, payload, produce_raw
from tests.support.records import execution
from tests.support.sinking import Message, Sinking, assert_exact, dead_letters, produce, read_topic, sinking, until

MB = 1 << 20
ODD = odd_executions()
OWN = 0
"""The partition of all records here."""


@pytest.fixture
def here(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    copy_migrated(tmp_path / "clickhouse")
    return make_settings(clickhouse_url=f"chdb:{tmp_path}/clickhouse")


def good(**fields: object) -> Message:
    return Message(execution("good", **fields), b"good", partition=OWN)


async def places(sink: Sinking, table: str = "tool_metrics") -> list[tuple[int, int]]:
    found = await sink.rows(f"SELECT kafka_partition, kafka_offset FROM {table}")
    return [(int(partition), int(offset)) for partition, offset in found]


async def sunk(here: Settings, table: str = "tool_metrics") -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Run a sink to the end of the topics: where what is stored and what is dead came from. Never both, and no row twice."""
    async with sinking(here) as sink:
        await sink.until_committed(here, 30)
        rows = await places(sink, table)
    stored, dead = set(rows), {place for place, letter in (await dead_letters(here)).items()}
    assert len(rows) == len(stored)
    assert not stored & dead
    return stored, dead


def counted(value: bytes | None) -> bool:
    """The worker decodes it."""
    try:
        wire.decode_execution(value)
    except InvalidExecutionError:
        return False
    return True


@pytest.mark.parametrize("kind", some(ODD, 3))
async def test_sink_stores_what_the_worker_counts_and_rejects_what_it_rejects(here: Settings, kind: str) -> None:
    odd = [Message(value, b"odd", partition=OWN) for value in ODD[kind]]
    sent = await produce(here, [each for one in odd for each in (one, good())])
    stored, dead = await sunk(here)
    wanted = {place: counted(one.value) for place, one in zip(sent[::2], odd, strict=True)}
    wrong = [one.value for place, one in zip(sent[::2], odd, strict=True) if (place in stored) != wanted[place]]
    assert wrong == []
    assert dead == {place for place, whether in wanted.items() if not whether}
    assert set(sent[1::2]) <= stored


OVERSIZED = {
    "a value of 20 MB": Message(execution("huge", error_message="x" * 20 * MB), partition=OWN),
    "a value of 20 MB that is not JSON": Message(bytes(20 * MB), partition=OWN),
    "a key of 3 MB": Message(execution(), bytes(3 * MB), partition=OWN),
    "a key of 3 MB without a value": Message(None, bytes(3 * MB), partition=OWN),
    "a key of 3 MB and junk": Message(b"junk", bytes(3 * MB), partition=OWN),
    "a header of 3 MB": Message(execution(), headers=[("big", bytes(3 * MB))], partition=OWN),
    "a header of 3 MB and junk": Message(b"junk", headers=[("big", bytes(3 * MB))], partition=OWN),
    "50,000 headers": Message(execution(), headers=[(f"h{n}", b"x") for n in range(50_000)], partition=OWN),
    "a header's name of 3 MB": Message(b"junk", headers=[("n" * 3 * MB, b"x")], partition=OWN),
}


@pytest.mark.deep
@pytest.mark.parametrize("compression", ["gzip", "zstd", "lz4", "snappy"])
async def test_records_that_are_small_for_the_broker_and_large_for_us_stop_nothing(
    here: Settings, compression: str
) -> None:
    odd = list(OVERSIZED.values())
    sent = await produce(here, [each for one in odd for each in (one, good())], compression=compression)
    stored, dead = await sunk(here)
    assert {place in stored for place in sent[1::2]} == {True}
    assert dead == {place for place, one in zip(sent[::2], odd, strict=True) if not counted(one.value)}
    letters = await dead_letters(here)
    huge = letters[sent[0]]
    assert huge.value_bytes == len(odd[0].value or b"")
    assert huge.value_sha256


FINE = RawRecord(execution("good"))


def bomb(codec: str) -> bytes:
    return batch(compressed(payload([RawRecord(bytes(200 * MB))] * 2), codec), 2, codec)


UNREADABLE = {
    "a header's name that is not UTF-8": lambda: batch(
        payload([FINE, RawRecord(execution("good"), headers=[(b"\xff\xfe", b"")])]), 2
    ),
    "bytes behind an lz4 stream": lambda: batch(compressed(payload([FINE] * 2), "lz4") + b"garbage", 2, "lz4"),
    "a gzip bomb": lambda: bomb("gzip"),
    "a zstd bomb": lambda: bomb("zstd"),
    "an lz4 bomb": lambda: bomb("lz4"),
}


@pytest.mark.parametrize("what", some(UNREADABLE, 1))
async def test_a_batch_that_kafkas_client_cannot_read_is_a_dead_letter_for_each_record(
    here: Settings, what: str
) -> None:
    (first,) = await produce_raw(here, here.topics.executions, OWN, [UNREADABLE[what]()])
    (after,) = await produce(here, [good()])
    stored, dead = await sunk(here)
    assert after in stored
    assert stored | dead == {(OWN, first), (OWN, first + 1), after}
    letter = (await dead_letters(here))[OWN, first + 1]
    assert letter.value is None
    assert letter.reason.startswith("the batch of this record can't be read: ")


@pytest.mark.deep
async def test_a_batch_of_more_records_than_a_client_sends_is_a_thousand_dead_letters(here: Settings) -> None:
    count = 300_000
    many = batch(compressed(payload([RawRecord()] * count), "gzip"), count, "gzip")
    (first,) = await produce_raw(here, here.topics.executions, OWN, [many])
    (after,) = await produce(here, [good()])
    stored, dead = await sunk(here)
    assert stored == {after}
    assert dead == {(OWN, first + place) for place in range(1_000)}
    last = (await dead_letters(here))[OWN, first + 999]
    assert f"the same of {count - 1_000} more records, up to offset {first + count - 1}" in last.reason


@pytest.mark.deep
async def test_a_gzip_stream_with_bytes_behind_it_is_read_as_java_does(here: Settings) -> None:
    odd = batch(compressed(payload([FINE, FINE]), "gzip") + b"garbage", 2, "gzip")
    await produce_raw(here, here.topics.executions, OWN, [odd])
    assert await sunk(here) == ({(OWN, 0), (OWN, 1)}, set())


def circuit(**fields: str) -> bytes:
    """A record of the circuits topic, with JSON text for some fields."""
    given = {
        "circuit_id": '"odd"',
        "tool_name": '"odd"',
        "state": '"open"',
        "version": "1",
        "generation": "1",
        "changed_at": '"2026-11-21T10:00:00Z"',
    }
    return ("{" + ",".join(f'"{name}":{text}' for name, text in (given | fields).items()) + "}").encode()


ODD_CIRCUITS = [
    *[circuit(**{name: text}) for name in ("version", "generation", "attempt", "permits_left") for text in NUMBERS],
    *[circuit(attempt=text) for text in ("4294967295", "4294967296", "-2147483649")],
    *[circuit(**{name: text}) for name in ("changed_at", "open_until", "stands_until") for text in TIMES],
    *[circuit(counts=f'{{"calls":{text},"wasted_tokens":{text}}}') for text in NUMBERS],
    *[circuit(cause=f'{{"rule":"x","value":{text},"sample":{text}}}') for text in NUMBERS],
    *[circuit(circuit_id=json.dumps(name), tool_name=json.dumps(name)) for name in NAMES],
    *[b"", b"junk", b"{}", b"\xff", b"null", b'{"circuit_id":' + b"[" * 200_000 + b"}"],
    circuit(fallback='["' + '","'.join(["t"] * 100_000) + '"]'),
    circuit(cause='{"rule":"x","reason":"' + "x" * 500_000 + '"}'),
]


async def test_record_of_the_circuits_topic_is_stored_unchanged_or_a_dead_letter(here: Settings) -> None:
    odd = [Message(value, b"odd", partition=OWN) for value in ODD_CIRCUITS]
    fine = Message(circuit(circuit_id='"good"', version="7"), b"good", partition=OWN)
    sent = await produce(here, [each for one in odd for each in (one, fine)], here.topics.circuits)
    async with sinking(here) as sink:
        await sink.until_committed(here, 30)
        rows = await sink.rows(
            "SELECT kafka_partition, kafka_offset, version, generation, attempt, toUnixTimestamp64Micro(changed_at), "
            "toUnixTimestamp64Micro(open_until) FROM circuit_transitions"
        )
    stored = {(int(row[0]), int(row[1])): tuple(row[2:]) for row in rows}
    dead = set(await dead_letters(here))
    assert len(rows) == len(stored)
    assert not stored.keys() & dead
    assert stored.keys() | dead == set(sent)
    assert set(sent[1::2]) <= stored.keys()
    for place, one in zip(sent[::2], odd, strict=True):
        if place in stored:
            expected = wire_circuit(one.value or b"")
            assert stored[place] == expected, one.value


def wire_circuit(value: bytes) -> tuple[object, ...]:
    """What the record says of those columns, by the model alone."""
    from switchgear_schemas.circuit import Circuit  # noqa: PLC0415 - beside the sink's own use of it

    read = Circuit.from_bytes(value)
    until = None if read.open_until is None else round(read.open_until.timestamp() * 1_000_000)
    return read.version, read.generation, read.attempt, round(read.changed_at.timestamp() * 1_000_000), until


async def test_transactions_leave_no_lag_and_no_missing_offsets(here: Settings) -> None:
    offsets = set()
    for number, commits in enumerate((True, False, True)):
        producer = AIOKafkaProducer(**here.kafka.options(), transactional_id=f"{here.topic_prefix}{number}")
        await producer.start()
        try:
            await producer.begin_transaction()
            for _ in range(3):
                sent = await producer.send_and_wait(here.topics.executions, execution("good"), partition=OWN)
                offsets.add((OWN, sent.offset))
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        finally:
            await producer.stop()
    async with sinking(here) as sink:
        await sink.until_committed(here, 30)
        await sink.until_caught_up(here)
        offsets.update(await produce(here, [good()]))
        await sink.until_count(10)
        assert sink.metric("switchgear_sink_missing_offsets_total", topic=here.topics.executions) == 0
        assert set(await places(sink)) == offsets
        assert max(offsets)[1] >= 12, "three offsets are the ends of transactions"


@pytest.mark.deep
async def test_ten_thousand_bad_records_are_dead_letters_within_seconds_and_a_few_lines_of_the_log(
    here: Settings,
) -> None:
    bad = [Message(b"junk %d" % number, b"junk", partition=OWN) for number in range(10_000)]
    sent = await produce(here, [*bad, good()])
    with capture_logs() as lines:
        async with sinking(here) as sink:
            await sink.until_count(1, limit_s=ANSWER_S)
            assert sink.metric("switchgear_sink_dead_letters_total", topic=here.topics.executions) == 10_000
    assert len(await dead_letters(here)) == len(sent) - 1
    reported = [line for line in lines if "rejected" in line["event"]]
    assert 1 <= len(reported) <= 5
    assert sum(line["count"] for line in reported) == 10_000


async def configure(settings: Settings, topic: str, **config: object) -> None:
    """As an operator does."""
    wanted = {name.replace("_", "."): str(value) for name, value in config.items()}
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()
    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, wanted)])
    finally:
        await admin.close()


async def test_a_dead_letter_topic_that_takes_less_gets_letters_without_a_value_or_none(here: Settings) -> None:
    await configure(here, here.topics.dead, max_message_bytes=1_500)
    large = Message(b"junk" * 1_000, b"k", partition=OWN)
    never = Message(b"junk", bytes(4_000), partition=OWN)
    sent = await produce(here, [large, good(), never, good(), Message(b"junk", b"k", partition=OWN), good()])
    with capture_logs() as lines:
        async with sinking(here) as sink:
            await sink.until_committed(here, 30)
            assert await sink.scalar("SELECT count() FROM tool_metrics") == 3
            assert sink.metric("switchgear_sink_lost_dead_letters_total", topic=here.topics.executions) == 1
    letters = await dead_letters(here)
    assert letters.keys() == {sent[0], sent[4]}
    assert letters[sent[0]].value_bytes == 4_000
    assert any("refuses letters even without their value" in line["event"] for line in lines)


async def test_a_topic_that_keeps_its_producers_clocks_stops_nothing(here: Settings) -> None:
    topic = here.topics.executions
    # Without a limit on retention, because Kafka deletes records that say they are from 1970 every five minutes.
    await configure(
        here, topic, message_timestamp_type="CreateTime", message_timestamp_after_max_ms=2**63 - 1, retention_ms=-1
    )

    async def kept() -> bool:
        await produce_raw(here, topic, OWN + 1, [batch(payload([FINE]), 1, stamp_ms=7)])
        return any(record.timestamp == 7 for record in await read_topic(here, topic))

    await until(kept, "a topic of its producers' clocks")
    possible = [0, 1, round(time.time() * 1000), 4_102_444_799_999]
    impossible = [-1, 4_102_444_800_000, 2**62]
    body = payload([FINE])
    sent = await produce_raw(here, topic, OWN, [batch(body, 1, stamp_ms=stamp) for stamp in possible + impossible])
    (after,) = await produce(here, [good()])
    stored, dead = await sunk(here)
    stored = {place for place in stored if place[0] == OWN}
    assert stored == {*[(OWN, offset) for offset in sent[: len(possible)]], after}
    assert dead == {(OWN, offset) for offset in sent[len(possible) :]}


@pytest.mark.deep
async def test_events_of_every_month_of_a_decade_at_once_are_stored(here: Settings) -> None:
    """Each month is a partition in each rollup."""
    months = [f"{year}-{month:02}-15T12:00:00Z" for year in range(2020, 2030) for month in range(1, 13)]
    await produce(here, [good(recorded_at=at, status="error") for at in months])
    async with sinking(here) as sink:
        await sink.until_count(len(months))
        await assert_exact(sink.store, len(months))


async def test_events_sent_again_under_odd_names_are_looked_up(here: Settings) -> None:
    names = [name for name in NAMES if 0 < len(name) <= 256]
    events = [execution(name) for name in names]
    again = [(headers.RESENT, b"1")]
    await produce(here, [Message(value, b"k", partition=OWN) for value in events])
    await produce(here, [Message(value, b"k", again, OWN) for value in events])
    stored, dead = await sunk(here)
    assert (len(stored), dead) == (len(names), set())
