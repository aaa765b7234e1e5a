"""Repair dead letters and send them again.

The execution is sent first. The letter's tombstone follows only when the broker has the execution.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID, uuid5

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from switchgear_schemas import headers, wire
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import BrokerUnavailableError, InvalidExecutionError, SwitchgearError
from switchgear_schemas.execution import MAX_EVENT_BYTES
from switchgear_schemas.families import DEFAULT_PATTERN, partition_key
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.topics import TopicNames
from switchgear_sinks.dead.letters import StoredLetter

RETRIED: Final = "switchgear.retried"
"""Header of an execution that was a dead letter: that letter's key."""
_NAMESPACE: Final = UUID("6f2a4a0e-6d0c-5e7b-9a52-5f1c8f4d2b11")
_MAX_LINE: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 200
_START_LIMIT_S: Final = 20.0
_ACKNOWLEDGE_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RetryOutcome:
    """The result for one letter. Without an ``error`` it was sent and is no longer a dead letter."""

    letter: StoredLetter
    error: InvalidExecutionError | None = None


class Retry:
    """A producer for one round of retries. Use it as ``async with``.

    If the command is killed before it writes a tombstone, the next retry sends the letter a second time. Both copies have the
    same ``metric_id`` and the header ``switchgear.resent``, so the sink stores one.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames, family_pattern: str = DEFAULT_PATTERN) -> None:
        self._connection = connection
        self._topics = topics
        self._family_pattern = family_pattern
        self._producer: Any = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            BrokerUnavailableError: No broker answered within 20 s.
        """
        producer = AIOKafkaProducer(
            **self._connection.options(), acks="all", enable_idempotence=True, max_request_size=6 * MAX_EVENT_BYTES
        )
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                await producer.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await producer.stop()
            raise self._unavailable(error) from error
        self._producer = producer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.stop()

    async def send(self, letters: Sequence[StoredLetter], repairs: Mapping[str, bytes]) -> AsyncIterator[RetryOutcome]:
        """Send each letter, and yield its outcome.

        Args:
            letters: The letters to send.
            repairs: Repaired bytes by the letter's key. A letter without one is sent with its own bytes.

        Raises:
            BrokerUnavailableError: The broker did not acknowledge in 30 s. Letters that were not yielded stay dead letters.
        """
        for start in range(0, len(letters), _AT_ONCE):
            ready: list[tuple[StoredLetter, str, bytes]] = []
            for letter in letters[start : start + _AT_ONCE]:
                try:
                    ready.append((letter, *self._prepared(letter, repairs)))
                except InvalidExecutionError as error:
                    yield RetryOutcome(letter, error)
            try:
                async with asyncio.timeout(_ACKNOWLEDGE_LIMIT_S):
                    await self._send(ready)
            except (KafkaError, OSError, TimeoutError) as error:
                raise self._unavailable(error) from error
            for letter, _, _ in ready:
                yield RetryOutcome(letter)

    def _prepared(self, letter: StoredLetter, repairs: Mapping[str, bytes]) -> tuple[str, bytes]:
        repaired = repairs.get(letter.key)
        refusal = why_not(letter, self._topics.executions, repaired)
        if refusal is not None:
            raise refusal
        return prepared(letter, letter.letter.body if repaired is None else repaired)

    async def _send(self, ready: Sequence[tuple[StoredLetter, str, bytes]]) -> None:
        count = len(await self._producer.partitions_for(self._topics.executions))
        keys = [partition_key(tool, self._family_pattern) for _, tool, _ in ready]
        sent = [
            await self._producer.send(
                self._topics.executions,
                value,
                key=key.encode(),
                partition=owner_partition(key, count),
                headers=[(headers.RESENT, b"1"), (RETRIED, letter.letter.key)],
            )
            for key, (letter, _, value) in zip(keys, ready, strict=True)
        ]
        await asyncio.gather(*sent)
        tombstones = [
            await self._producer.send(self._topics.dead, None, key=letter.letter.key, partition=letter.partition)
            for letter, _, _ in ready
        ]
        await asyncio.gather(*tombstones)

    def _unavailable(self, error: BaseException) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"Kafka at {self._connection.bootstrap_servers} did not answer: {str(error) or type(error).__name__}.",
            hint="What was not reported as sent is still a dead letter: try again.",
        )


def prepared(letter: StoredLetter, value: bytes) -> tuple[str, bytes]:
    """Return the tool and the message to send for ``letter``.

    A missing ``metric_id`` is derived from the letter's key, so that a letter that is sent twice is one event. A missing
    ``recorded_at`` is the time at which the message first arrived, so that it counts in its own minute. Everything else is
    sent as it is.

    Args:
        letter: The letter.
        value: Its own bytes, or the repaired ones.

    Raises:
        InvalidExecutionError: ``value`` isn't a valid execution. The error has the field and the reason.
    """
    event = wire.decode_execution(value)
    missing: dict[str, Any] = {}
    if event.metric_id is None:
        missing["metric_id"] = str(uuid5(_NAMESPACE, letter.key))
    if event.recorded_at is None:
        missing["recorded_at"] = letter.at.astimezone(UTC).isoformat()
    if missing:
        fields = msgspec.json.decode(value.decode(errors="replace"))
        value = msgspec.json.encode(fields | missing)
        event = wire.decode_execution(value)
    return event.tool_name, value


def read_repairs(lines: list[str], name: str) -> dict[str, bytes]:
    """Return repaired messages by the letter's key, from lines ``{"key": …, "value": …}``.

    ``value`` is the event, or the event as text, as ``switchgear dead list --jsonl`` writes it.

    Args:
        lines: The lines.
        name: Name of the file, for errors.

    Raises:
        SwitchgearError: A line does not have this form, or a key comes twice. The message has the line's number.
    """
    found: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        if len(line) > _MAX_LINE:
            raise SwitchgearError(f"{where} is longer than {_MAX_LINE} characters.")
        try:
            given = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SwitchgearError(f"{where} is not JSON: {error}.") from None
        if not isinstance(given, dict) or not isinstance(given.get("key"), str) or given.get("value") is None:
            raise SwitchgearError(
                f'{where} must be an object with "key" and "value".',
                hint="Write the lines with `switchgear dead list --jsonl` and repair the value.",
            )
        if given["key"] in found:
            raise SwitchgearError(f"{where}: the key {given['key']} came before.")
        value = given["value"]
        found[given["key"]] = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return found


def why_not(letter: StoredLetter, executions: str, repaired: bytes | None = None) -> InvalidExecutionError | None:
    """Return why ``letter`` can't be sent again; None if it can.

    Args:
        letter: The letter.
        executions: Name of the topic to send to.
        repaired: Bytes to send instead of its own.
    """
    if letter.letter.topic != executions:
        return InvalidExecutionError("", f"it came from {letter.letter.topic}, and only executions can be sent again")
    if letter.letter.truncated and (repaired is None or repaired == letter.letter.body):
        found = letter.letter
        return InvalidExecutionError(
            "",
            f"the letter has only the first {len(found.body):,} of {found.value_bytes:,} bytes; the original is at offset "
            f"{found.offset} of partition {found.partition} of {found.topic} while that topic keeps it. Give a whole message with --file",
        )
    return None
