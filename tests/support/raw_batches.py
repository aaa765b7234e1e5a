"""Record batches written byte by byte, as a foreign client may send them (Kafka's message format version 2)."""

from __future__ import annotations

import asyncio
import gzip
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import cramjam
from aiokafka import AIOKafkaProducer
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition

from switchgear_schemas.settings import Settings
from tests.support.limits import HAPPEN_S

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOT_LEADER: Final = 6
WAIT_S: Final = HAPPEN_S


@dataclass
class RawRecord:
    """A record. The names of its headers are bytes, because Kafka does not check them."""

    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = field(default_factory=list)


def varint(value: int) -> bytes:
    """Return a zigzag varint: seven bits per byte, the lowest first."""
    number = (value << 1) ^ (value >> 63)
    found = bytearray()
    while number & ~0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def payload(records: Iterable[RawRecord]) -> bytes:
    """Return the uncompressed records of a batch."""
    found = bytearray()
    for offset, each in enumerate(records):
        headers = b"".join(_sized(name) + _sized(value) for name, value in each.headers)
        body = (
            b"\0" + varint(0) + varint(offset) + _sized(each.key) + _sized(each.value) + varint(len(each.headers))
        ) + headers
        found += varint(len(body)) + body
    return bytes(found)


def compressed(data: bytes, codec: str) -> bytes:
    """Compress as Kafka's own clients do."""
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == "lz4":
        compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    return bytes(cramjam.zstd.compress(data)) if codec == "zstd" else data


def batch(body: bytes, count: int, codec: str = "none", *, stamp_ms: int | None = None) -> bytes:
    """Return a batch of ``count`` records around ``body``, with a valid checksum."""
    stamp = round(time.time() * 1000) if stamp_ms is None else stamp_ms
    rest = struct.pack(">hiqqqhii", CODECS[codec], count - 1, stamp, stamp, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, calc_crc32c(rest)) + rest


def at_offset(whole: bytes, offset: int) -> bytes:
    """Return the batch as a broker stores it. The checksum does not cover the offset."""
    return struct.pack(">q", offset) + whole[8:]


async def produce_raw(settings: Settings, topic: str, partition: int, batches: Iterable[bytes]) -> list[int]:
    """Send whole batches, one per request, and return the offset of each first record.

    Raises:
        AssertionError: the broker refused one.
    """
    producer = AIOKafkaProducer(**settings.kafka.options())
    try:
        await producer.start()
        await producer.partitions_for(topic)
        leader = producer.client.cluster.leader_for_partition(TopicPartition(topic, partition))
        offsets = []
        for each in batches:
            request = ProduceRequest(None, -1, 30_000, [(topic, [(partition, each)])])
            error = NOT_LEADER
            deadline = time.monotonic() + WAIT_S
            while error == NOT_LEADER and time.monotonic() < deadline:  # the topic is a few milliseconds old
                answer = await producer.client.send(leader, request)
                (_, ((_, error, offset, *_),)) = answer.topics[0]
                await asyncio.sleep(0.02 if error == NOT_LEADER else 0)
            assert error == 0, f"the broker refuses the batch with the code {error}"
            offsets.append(offset)
        return offsets
    finally:
        await producer.stop()
