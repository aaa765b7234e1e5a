"""Batches that aiokafka cannot read: each record has a placeholder, and reading goes on behind them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.record._crecords import default_records
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord, TopicPartition

from switchgear_schemas import unreadable as module
from switchgear_schemas.headers import UNREADABLE
from switchgear_schemas.records import unreadable
from switchgear_schemas.unreadable import BatchGuard, guard
from tests.support.raw_batches import RawRecord, at_offset, batch, compressed, payload
from tests.support.table import table

HERE = TopicPartition("executions", 3)
GOOD = RawRecord(b"good", b"key", [(b"name", b"value"), (b"null", None)])
BAD = RawRecord(b"bad", headers=[(b"\xff", b"")])


def fetched(*batches: bytes, offset: int = 0) -> Any:
    return PartitionRecords(HERE, MemoryRecords(b"".join(batches)), [], offset, None, None, True, 0)


def read(found: Any, reader: BatchGuard | None = None) -> list[ConsumerRecord[Any, Any]]:
    return list((reader or BatchGuard()).read(found))


@table("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_readable_records_are_the_same_as_without_the_guard(codec: str) -> None:
    one = batch(compressed(payload([GOOD] * 3), codec), 3, codec)
    two = at_offset(batch(payload([RawRecord()]), 1), 3)
    found = fetched(one, two)
    assert read(found) == list(fetched(one, two))
    assert found.next_fetch_offset == 4


def test_records_before_the_requested_offset_are_left_out() -> None:
    one = batch(payload([GOOD] * 3), 3)
    assert [record.offset for record in read(fetched(one, offset=2))] == [2]
    assert read(fetched(one, offset=3)) == []


def test_a_record_that_aiokafka_can_not_read_becomes_a_placeholder_with_the_reason() -> None:
    one, two = batch(payload([GOOD, BAD, GOOD]), 3), at_offset(batch(payload([GOOD]), 1), 3)
    with pytest.raises(UnicodeDecodeError):
        list(fetched(one, two))
    found = fetched(one, two)
    records = read(found)
    assert [record.offset for record in records] == [0, 1, 2, 3]
    assert [unreadable(record) is None for record in records] == [True, False, False, True]
    assert records[1].value is None
    assert records[1].timestamp == records[0].timestamp
    assert "'utf-8' codec can't decode byte 0xff" in str(unreadable(records[1]))
    assert found.next_fetch_offset == 4


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_more_than_the_limit_is_not_unpacked(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 1_000_000)
    bomb = batch(compressed(payload([RawRecord(bytes(1_000_000))]), codec), 1, codec)
    fits = at_offset(batch(compressed(payload([RawRecord(bytes(999_000))]), codec), 1, codec), 1)
    records = read(fetched(bomb, fits))
    assert unreadable(records[0]) == (
        "the batch of this record can't be read: it unpacks to more than the 1000000 bytes allowed"
    )
    assert len(records[1].value) == 999_000


def test_an_unguarded_consumer_of_the_process_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 1_000)
    large = batch(compressed(payload([RawRecord(bytes(100_000))]), "zstd"), 1, "zstd")
    assert len(next(fetched(large)).value) == 100_000


def test_a_gzip_stream_of_several_members_is_read_to_its_end() -> None:
    whole = payload([GOOD, GOOD])
    two = compressed(whole[:9], "gzip") + compressed(whole[9:], "gzip")
    assert [record.value for record in read(fetched(batch(two + b"rest", 2, "gzip")))] == [b"good", b"good"]
    cut = batch(two[:-4], 2, "gzip")
    assert "cut off" in str(unreadable(read(fetched(cut))[0]))


def test_a_batch_of_too_many_records_has_a_limited_number_of_placeholders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_RECORDS", 100)
    monkeypatch.setattr(module, "MAX_PLACEHOLDERS", 10)
    found = fetched(batch(payload([GOOD] * 101), 101), at_offset(batch(payload([GOOD]), 1), 101))
    records = read(found)
    assert [record.offset for record in records] == [*range(10), 101]
    assert "the same of 91 more records, up to offset 100" in str(unreadable(records[9]))
    assert found.next_fetch_offset == 102


def test_a_damaged_batch_is_fetched_again_before_it_counts_as_unreadable() -> None:
    whole = batch(payload([GOOD]), 1)
    damaged = whole[:-1] + b"!"
    reader = BatchGuard()
    for _ in range(2):
        again = fetched(damaged)
        assert read(again, reader) == []
        assert again.next_fetch_offset == 0
    assert "checksum" in str(unreadable(read(fetched(damaged), reader)[0]))
    assert read(fetched(damaged), reader) == [], "it counts from the start"
    assert read(fetched(whole), reader)[0].value == b"good"


def test_a_poll_returns_no_more_than_its_bytes_and_the_next_one_continues() -> None:
    one = batch(payload([RawRecord(bytes(600))] * 3), 3)
    reader = BatchGuard(1_000)
    found = fetched(one)
    assert [record.offset for record in read(found, reader)] == [0, 1]
    assert found.next_fetch_offset == 2
    assert read(fetched(one, offset=2), reader) == [], "until the next poll"
    reader.refill()
    assert [record.offset for record in read(fetched(one, offset=2), reader)] == [2]


def test_a_record_with_a_value_is_not_a_placeholder() -> None:
    assert unreadable(SimpleNamespace(value=b"x", headers=[(UNREADABLE, b"why")])) is None
    assert unreadable(SimpleNamespace(value=None, headers=[(UNREADABLE, None)])) is None
    assert unreadable(SimpleNamespace(value=None, headers=())) is None
    assert unreadable(SimpleNamespace(value=None, headers=[(UNREADABLE, b"why")])) == "why"


def test_every_result_of_a_guarded_consumer_is_read_by_the_guard() -> None:
    early = FetchResult(HERE, partition_records=fetched(batch(payload([BAD]), 1)), assignment=None, backoff=0)
    consumer = SimpleNamespace(_fetcher=SimpleNamespace(_records={HERE: early}))
    BatchGuard().install(consumer)
    late = FetchResult(HERE, partition_records=fetched(batch(payload([BAD]), 1)), assignment=None, backoff=0)
    assert unreadable(next(early._partition_records)) is not None
    consumer._fetcher._records[HERE] = late
    assert unreadable(next(late._partition_records)) is not None
    consumer._fetcher._records[HERE] = error = object()
    assert consumer._fetcher._records[HERE] is error


def test_aiokafka_has_the_private_names_that_the_guard_uses() -> None:
    found = fetched(batch(payload([GOOD]), 1))
    assert {"_records", "_records_iterator", "_tp", "next_fetch_offset"} <= vars(found).keys()
    assert {"gzip_decode", "lz4_decode", "zstd_decode"} <= vars(default_records).keys()


async def test_each_poll_of_a_guarded_consumer_has_the_whole_limit() -> None:
    one = batch(payload([RawRecord(bytes(600))] * 3), 3)
    polled: list[list[ConsumerRecord[Any, Any]]] = []
    fetcher = SimpleNamespace(_records={})

    async def fetched_records(partition: Any, *, timeout: int) -> None:  # noqa: ASYNC109 - aiokafka's signature
        fetcher._records[HERE] = FetchResult(
            HERE, partition_records=fetched(one, offset=sum(map(len, polled))), assignment=None, backoff=timeout
        )
        polled.append(list(fetcher._records[partition]._partition_records))

    fetcher.fetched_records = fetched_records
    guard(SimpleNamespace(_fetcher=fetcher), poll_bytes=1_000)
    for _ in range(3):
        await fetcher.fetched_records(HERE, timeout=0)
    assert [[record.offset for record in records] for records in polled] == [[0, 1], [2], []]
