"""Read the dead-letter topic: the newest record of each key, as compaction will leave it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.execution import MAX_EVENT_BYTES
from switchgear_schemas.unreadable import guard
from switchgear_sinks.dead.letters import Selection, StoredLetter

log = structlog.get_logger()

MAX_LETTERS: Final = 100_000
MAX_BYTES: Final = 256 * 1024 * 1024
"""Limits of one reading, which holds the letters in memory."""
_CONNECT_LIMIT_S: Final = 20.0
_SILENCE_LIMIT_S: Final = 30.0
_POLL_MS: Final = 500


class TooManyLettersError(SwitchgearError):
    """The selection has more dead letters than one command can hold in memory."""


async def read_letters(connection: KafkaConnection, topic: str, selection: Selection) -> list[StoredLetter]:
    """Return the selected letters, oldest first. Letters that were sent again have a tombstone and are left out.

    Records that are not dead letters are skipped, and their number is logged.

    Raises:
        BrokerUnavailableError: No broker answered, or it sent nothing for 30 s.
        SwitchgearError: The topic does not exist.
        TooManyLettersError: There are too many; narrow the selection.
    """
    consumer = AIOKafkaConsumer(
        **connection.options(), enable_auto_commit=False, max_partition_fetch_bytes=6 * MAX_EVENT_BYTES
    )
    try:
        async with asyncio.timeout(_CONNECT_LIMIT_S):
            await consumer.start()
            guard(consumer)
            partitions = await _partitions(connection, topic)
            consumer.assign(partitions)
            begins = await consumer.beginning_offsets(partitions)
            ends = await consumer.end_offsets(partitions)
        for partition, begin in begins.items():
            consumer.seek(partition, begin)
        found = await _read(consumer, ends, selection)
    except (KafkaError, OSError, TimeoutError) as error:
        raise BrokerUnavailableError(
            f"The dead letters could not be read at {connection.bootstrap_servers}: {str(error) or type(error).__name__}.",
            hint="Start Kafka, or name its address with --bootstrap-servers.",
        ) from error
    finally:
        await consumer.stop()
    return sorted(found.values(), key=lambda each: (each.letter.timestamp_ms, each.key))


async def _partitions(connection: KafkaConnection, topic: str) -> list[TopicPartition]:
    admin = AIOKafkaAdminClient(**connection.options())
    try:
        await admin.start()
        (found,) = await admin.describe_topics([topic])
    finally:
        await admin.close()
    if found["error_code"] or not found["partitions"]:
        raise SwitchgearError(f"The topic {topic} does not exist.", hint="Create it: `switchgear topics ensure`.")
    return [TopicPartition(topic, each["partition"]) for each in found["partitions"]]


async def _read(consumer: Any, ends: Mapping[TopicPartition, int], selection: Selection) -> dict[bytes, StoredLetter]:
    found: dict[bytes, StoredLetter] = {}
    held = foreign = 0
    deadline = time.monotonic() + _SILENCE_LIMIT_S
    while await _behind(consumer, ends):
        for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            deadline = time.monotonic() + _SILENCE_LIMIT_S
            for record in records:
                before = found.pop(record.key, None)
                held -= before.letter.size if before is not None else 0
                letter = _letter(record)
                foreign += letter is None and (record.value is not None or record.key is None)
                newer = before is not None and selection.place is not None  # worker and sink write the same letter
                if letter is not None and (newer or selection.matches(letter)):
                    found[record.key] = letter
                    held += letter.letter.size
            if len(found) > MAX_LETTERS or held > MAX_BYTES:
                raise TooManyLettersError(
                    f"There are more dead letters than can be handled at once ({MAX_LETTERS:,}, {MAX_BYTES >> 20} MiB).",
                    hint="Narrow them with --tool, --reason, --component, --field or --since.",
                )
        if time.monotonic() > deadline:
            raise TimeoutError(f"the broker sent nothing for {_SILENCE_LIMIT_S:.0f} s")
    if foreign:
        log.warning("records skipped: they are not dead letters of Switchgear", count=foreign)
    return found


async def _behind(consumer: Any, ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return True
    return False


def _letter(record: Any) -> StoredLetter | None:
    """Return the letter; None for a tombstone, and for a record that Switchgear did not write."""
    if record.key is None or record.value is None:
        return None
    try:
        letter = DeadLetter.from_record(record.value, record.headers)
    except (KeyError, ValueError):
        return None
    if letter.key != record.key:  # a tombstone under the letter's own key would not remove this record
        return None
    return StoredLetter(letter, record.partition, record.offset, record.timestamp)
