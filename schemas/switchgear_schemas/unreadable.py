"""Reading past batches that can't be read. aiokafka raises on such a batch at every fetch, so its partition would stand still.

A broker checks a batch less than a client does. It accepts a header name that isn't UTF-8, bytes after the end of a compressed stream, and
a batch of 1 MB that unpacks to gigabytes. A guarded consumer returns a placeholder for each record that it can't read: a record without a
value, whose header :data:`~switchgear_schemas.headers.UNREADABLE` says why. Readers treat it like any other wrong record.

This module uses private names of aiokafka. It is pinned exactly, and ``tests/unit/schemas/test_unreadable.py`` fails if they change.
"""

# ruff: noqa: SLF001 - pinned, see the module's docstring

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

from aiokafka import codec
from aiokafka.record._crecords import default_records
from aiokafka.record.util import decode_varint
from aiokafka.structs import ConsumerRecord

from switchgear_schemas.headers import UNREADABLE

MAX_BATCH_BYTES: Final = 64 * 1024 * 1024
"""A batch that unpacks to more is not unpacked."""
POLL_BYTES: Final = 16 * 1024 * 1024
"""Keys and values of one poll of a guarded consumer. A fetch of 1 MB may unpack to gigabytes."""
MAX_BATCH_RECORDS: Final = 100_000
"""A batch that claims more records is not read. Each of them may cost a dead letter."""
MAX_PLACEHOLDERS: Final = 1_000
"""Placeholders for one batch. The last one stands for the rest of the batch."""
MAX_BATCH_HEADERS: Final = 1_000_000
"""Headers of all records of a large compressed batch. Each takes about 100 bytes in memory."""
_SCANNED_FROM: Final = 4 * 1024 * 1024
"""Unpacked bytes from which the headers are counted. A smaller batch has no more than a few million."""
_FIRST_ROOM: Final = 256 * 1024
_CRC_TRIES: Final = 3
_GZIP: Final = 31  # zlib's window bits for a gzip header
_limit: ContextVar[int | None] = ContextVar("switchgear_unpacked_limit", default=None)


class _UnreadableError(Exception):
    """A batch can't be read, or may not be."""


class BatchGuard:
    """Reads the batches of one consumer.

    Args:
        poll_bytes: Bytes of records that one poll may return, from all partitions together. The rest is fetched again. None: no limit.
            Call :meth:`refill` before each poll.
    """

    def __init__(self, poll_bytes: int | None = None) -> None:
        self._poll_bytes = poll_bytes
        self._left = 0
        self._crc_failures: dict[tuple[Any, int], int] = {}
        self.refill()

    def refill(self) -> None:
        """Start a new poll, with the whole limit."""
        self._left = 1 << 62 if self._poll_bytes is None else self._poll_bytes

    def install(self, consumer: Any) -> None:
        """Guard ``consumer``, an ``AIOKafkaConsumer`` that is started and has read nothing yet."""
        fetcher = consumer._fetcher
        fetcher._records = _Fetched(self.read, fetcher._records)

    def read(self, fetched: Any) -> Iterator[ConsumerRecord[Any, Any]]:
        """Yield what aiokafka's ``PartitionRecords._unpack_records`` yields, aborted transactions included. Never raise its errors."""
        memory = fetched._records
        while self._left > 0 and memory.has_next():
            batch = memory.next_batch()
            if not batch.is_control_batch and batch.next_offset > fetched.next_fetch_offset:
                if batch.validate_crc():
                    yield from self._records(fetched, batch)
                elif self._try_again(fetched, batch):
                    return
                else:
                    yield from _placeholders(fetched, batch, _UnreadableError("its checksum does not hold"))
                if self._left <= 0 and fetched.next_fetch_offset < batch.next_offset:
                    return
            fetched.next_fetch_offset = max(fetched.next_fetch_offset, batch.next_offset)

    def _records(self, fetched: Any, batch: Any) -> Iterator[ConsumerRecord[Any, Any]]:
        records: Iterator[Any] | None = None
        while self._left > 0:
            try:
                records = _opened(batch) if records is None else records
                record = next(records)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - the decoders may raise anything on untrusted bytes
                yield from _placeholders(fetched, batch, error)
                return
            if record.offset < fetched.next_fetch_offset:
                continue
            self._left -= len(record.value or b"") + len(record.key or b"")
            fetched.next_fetch_offset = record.offset + 1
            yield fetched._consumer_record(fetched._tp, record)

    def _try_again(self, fetched: Any, batch: Any) -> bool:
        """Return whether to fetch a damaged batch again. It may have been damaged on the network."""
        place = (fetched._tp, batch.base_offset)
        failures = self._crc_failures.pop(place, 0) + 1
        if failures < _CRC_TRIES:
            self._crc_failures[place] = failures
        return failures < _CRC_TRIES


def guard(consumer: Any, poll_bytes: int = POLL_BYTES) -> None:
    """Guard ``consumer``, an ``AIOKafkaConsumer`` that is started and has read nothing yet. A poll returns at most ``poll_bytes``."""
    reader = BatchGuard(poll_bytes)
    reader.install(consumer)
    fetched_records = consumer._fetcher.fetched_records

    async def refilled(*arguments: Any, **named: Any) -> Any:
        reader.refill()
        return await fetched_records(*arguments, **named)

    consumer._fetcher.fetched_records = refilled


class _Fetched(OrderedDict[Any, Any]):
    """The fetcher's results by partition. The guard reads each one."""

    def __init__(self, read: Callable[[Any], Iterator[Any]], before: OrderedDict[Any, Any]) -> None:
        super().__init__()
        self._read = read
        for partition, result in before.items():
            self[partition] = result

    def __setitem__(self, partition: Any, result: Any) -> None:
        records = getattr(result, "_partition_records", None)  # a fetch error has none
        if records is not None:
            records._records_iterator = self._read(records)
        super().__setitem__(partition, result)


def _opened(batch: Any) -> Iterator[Any]:
    """Return an iterator over the unpacked records."""
    count = batch.last_offset_delta + 1
    if count > MAX_BATCH_RECORDS:
        raise _UnreadableError(f"it has {count} records, more than the {MAX_BATCH_RECORDS} allowed")
    token = _limit.set(MAX_BATCH_BYTES)
    try:
        return iter(batch)
    finally:
        _limit.reset(token)


def _placeholders(fetched: Any, batch: Any, error: Exception) -> Iterator[ConsumerRecord[Any, Any]]:
    first, last = fetched.next_fetch_offset, batch.next_offset - 1
    why = " ".join(str(error).split())[:300] or type(error).__name__
    reason = f"the batch of this record can't be read: {why}"
    for offset in range(first, min(last, first + MAX_PLACEHOLDERS - 1) + 1):
        rest = last - offset if offset == first + MAX_PLACEHOLDERS - 1 else 0
        said = f"{reason} (the same of {rest} more records, up to offset {last})" if rest else reason
        fetched.next_fetch_offset = offset + 1
        yield ConsumerRecord(
            fetched._tp.topic,
            fetched._tp.partition,
            offset,
            batch.max_timestamp,
            batch.timestamp_type,
            None,
            None,
            None,
            -1,
            -1,
            ((UNREADABLE, said.encode()),),
        )
    fetched.next_fetch_offset = batch.next_offset


def _too_large(limit: int) -> _UnreadableError:
    return _UnreadableError(f"it unpacks to more than the {limit} bytes allowed")


def _gunzip(data: Any, limit: int) -> bytes | bytearray:
    """Unpack all members of a gzip stream. Bytes after the last member are ignored, as Java does."""
    found = bytearray()
    rest = bytes(data)
    while rest[:2] == b"\x1f\x8b":
        unpacker = zlib.decompressobj(_GZIP)
        found += unpacker.decompress(rest, limit + 1 - len(found))
        if len(found) > limit:
            raise _too_large(limit)
        if not unpacker.eof:
            raise _UnreadableError("its gzip stream is cut off")
        rest = unpacker.unused_data
    return found


def _into(library: Any) -> Callable[[Any, int], bytes | bytearray]:
    def unpack(data: Any, limit: int) -> bytes | bytearray:
        room = min(limit, max(_FIRST_ROOM, 8 * len(data)))  # small at first, because Python fills it with zeros
        while True:
            found = bytearray(room)
            try:
                size = library.decompress_into(data, found)
            except Exception as error:
                if "whole buffer" not in str(error):
                    raise
                if room >= limit:
                    raise _too_large(limit) from None
                room = min(limit, 4 * room)
            else:
                del found[size:]
                return found

    return unpack


def _check_headers(body: bytes | bytearray) -> None:
    """Refuse a batch whose records have so many headers that they would take gigabytes. A header takes only two bytes in a batch.

    Raises:
        _UnreadableError: There are too many headers, or the batch is damaged.
    """
    at, headers = 0, 0
    while at < len(body):
        length, start = decode_varint(body, at)
        _, place = decode_varint(body, start + 1)  # after the attributes come the timestamp and the offset
        _, place = decode_varint(body, place)
        for _ in ("key", "value"):
            size, place = decode_varint(body, place)
            place += max(size, 0)
        count, _ = decode_varint(body, place)
        headers += count
        if headers > MAX_BATCH_HEADERS:
            raise _UnreadableError(f"its records have more than the {MAX_BATCH_HEADERS} headers allowed")
        at = start + max(length, 1)


def _bounded(
    whole: Callable[[Any], bytes], bounded: Callable[[Any, int], bytes | bytearray]
) -> Callable[[Any], bytes | bytearray]:
    def decode(data: Any) -> bytes | bytearray:
        limit = _limit.get()
        if limit is None:
            return whole(data)
        found = bounded(data, limit)
        if len(found) > _SCANNED_FROM:
            _check_headers(found)
        return found

    return decode


def _bound_codecs(module: Any) -> None:
    """Make aiokafka's decoders obey the limit of the batch that is being opened. For an unguarded consumer nothing changes.

    Snappy needs no limit: it packs at most 21 to 1, and the topic's max.message.bytes limits the packed bytes.
    """
    snappy: Callable[[Any], bytes] = module.snappy_decode
    module.gzip_decode = _bounded(module.gzip_decode, _gunzip)
    module.snappy_decode = _bounded(snappy, lambda data, _limit: snappy(data))
    if codec.cramjam is not None:  # without cramjam, aiokafka reads only gzip
        module.lz4_decode = _bounded(module.lz4_decode, _into(codec.cramjam.lz4))
        module.zstd_decode = _bounded(module.zstd_decode, _into(codec.cramjam.zstd))


_bound_codecs(default_records)
