"""Writing hostile records into every topic of a running system, by aiokafka and byte by byte."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    CorruptRecordException,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    UnknownError,
)

from switchgear_schemas.settings import Settings
from tests.fuzz.messages import hostile
from tests.fuzz.messages.hostile import COMPRESSIONS, Hostile
from tests.support.limits import HAPPEN_S
from tests.support.raw_batches import RawRecord, batch, compressed, payload, produce_raw

MB: Final = 1 << 20
REFUSALS: Final = (
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    CorruptRecordException,
    InvalidTimestampError,
    UnknownError,
)


class Writer:
    """Producers of each compression, and one with transactions. Use it with ``async with``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producers: dict[tuple[str | None, bool], Any] = {}

    async def __aenter__(self) -> Self:
        for compression in COMPRESSIONS:
            await self._start(compression, in_transactions=False)
        await self._start(None, in_transactions=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for producer in self._producers.values():
            await producer.stop()

    async def _start(self, compression: str | None, *, in_transactions: bool) -> None:
        producer = AIOKafkaProducer(
            **self._settings.kafka.options(),
            acks="all",
            compression_type=compression,
            max_request_size=200 * MB,
            transactional_id=f"fuzz-{uuid4()}" if in_transactions else None,
        )
        await producer.start()
        self._producers[compression, in_transactions] = producer

    async def write(self, topic: str, records: Sequence[Hostile]) -> int:
        """Write the records that the broker accepts, and return their number."""
        return sum([await self._write(topic, record) for record in records])

    async def _write(self, topic: str, record: Hostile) -> bool:
        producer = self._producers[(None, True) if record.transaction else (record.compression, False)]
        try:
            if record.transaction:
                await producer.begin_transaction()
            await producer.send_and_wait(
                topic,
                record.value,
                key=b"" if record.key is None and record.value is None else record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
            )
        except REFUSALS:
            if record.transaction:  # aiokafka can't go on after a refusal
                await producer.stop()
                await self._start(None, in_transactions=True)
            return False
        if record.transaction == "commit":
            await producer.commit_transaction()
        elif record.transaction:
            await producer.abort_transaction()
        return True

    async def write_raw(self, topic: str, partition: int, batches: Sequence[bytes]) -> int:
        """Write whole batches. Those that the broker refuses are left out."""
        taken = 0
        for each in batches:
            try:
                async with asyncio.timeout(HAPPEN_S):
                    await produce_raw(self._settings, topic, partition, [each])
                taken += 1
            except AssertionError:
                continue
        return taken


def dressed(rng: random.Random, record: Hostile) -> Hostile:
    """Return the record, sometimes with an odd timestamp, a compression or a transaction."""
    record.compression = rng.choice(COMPRESSIONS)
    if rng.random() < 0.2:
        record.timestamp_ms = rng.choice((0, 1, 2**31, 2**53))
    if rng.random() < 0.1:
        record.transaction = rng.choice(("commit", "abort"))
    if rng.random() < 0.05:
        record.headers += [(f"h{number}", bytes(10)) for number in range(rng.choice((10, 1_000, 20_000)))]
    if rng.random() < 0.03:
        record.headers.append(("large", bytes(3 * MB)))
    return record


def executions(rng: random.Random, count: int, partitions: int) -> list[Hostile]:
    """Return records for the executions topic, in right and wrong partitions."""
    found = []
    for _ in range(count):
        value = (
            hostile.blob(rng) if rng.random() < 0.15 else hostile.execution(rng, rng.choice((*hostile.NAMES, "t", "h")))
        )
        key = rng.choice((b"t", None, b"", b"\xff", hostile.blob(rng)))
        record = Hostile(rng.choice((value, value, value, None)), key, rng.randrange(partitions), hostile.headers(rng))
        record = dressed(rng, record)
        if len(value) > 4 * MB:
            record.compression = rng.choice(("gzip", "zstd"))
        if rng.random() < 0.02:
            record.key = bytes(3 * MB)
        found.append(record)
    return found


def commands(rng: random.Random, count: int, partitions: int) -> list[Hostile]:
    """Return records for the commands topic."""
    return [
        dressed(
            rng,
            Hostile(
                hostile.blob(rng) if rng.random() < 0.15 else hostile.command(rng),
                rng.choice((b"t", None)),
                rng.randrange(partitions),
                hostile.headers(rng),
            ),
        )
        for _ in range(count)
    ]


def state(rng: random.Random, count: int, partitions: int, kind: str) -> list[Hostile]:
    """Return records with keys, and tombstones, for the changelog (``row``), the circuits (``circuit``) or the dead letters (``letter``)."""
    found = []
    for _ in range(count):
        headers: list[tuple[str, bytes | None]] = []
        if kind == "letter":
            key, value, headers = hostile.letter(rng)
        else:
            key, value = hostile.row(rng) if kind == "row" else hostile.circuit(rng)
        absent = rng.random() < 0.1 and not key.startswith(b"good-")
        found.append(dressed(rng, Hostile(None if absent else value, key, rng.randrange(partitions), headers)))
    return found


def batches(rng: random.Random) -> list[bytes]:
    """Return batches with invalid header names, with bytes after the end, or that unpack to gigabytes."""
    codec = rng.choice(("none", "gzip", "lz4", "zstd", "snappy"))
    odd = payload(
        [RawRecord(b"v", b"t", [(rng.randbytes(4), b"x"), (b"\xff\xfe", None)]) for _ in range(rng.randint(1, 5))]
    )
    bomb = payload([RawRecord(bytes(rng.choice((30, 70, 200)) * MB), b"t")])
    kind = rng.random()
    if kind < 0.6:
        return [batch(compressed(odd, codec), odd.count(b"\xff\xfe"), codec)]
    if kind < 0.9:
        tight = rng.choice(("gzip", "lz4", "zstd"))
        return [batch(compressed(bomb, tight), 1, tight)]
    return [batch(hostile.damaged(rng, compressed(odd, codec)), 1, codec)]
