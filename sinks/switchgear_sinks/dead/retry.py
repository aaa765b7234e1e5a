"""Sending dead letters again: first the execution, and only when the broker has it, the letter's tombstone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from switchgear_schemas import headers
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import BrokerUnavailableError, InvalidExecutionError
from switchgear_schemas.execution import MAX_EVENT_BYTES
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.topics import TopicNames
from switchgear_sinks.dead.letters import StoredLetter
from switchgear_sinks.dead.repair import prepared, why_not

RETRIED: Final = "switchgear.retried"
"""Header of an execution that was a dead letter: that letter's key."""
_AT_ONCE: Final = 200
_START_LIMIT_S: Final = 20.0
_ACKNOWLEDGE_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one letter; ``error`` None: it was sent, and is no dead letter any more."""

    letter: StoredLetter
    error: InvalidExecutionError | None = None


class Retry:
    """A producer for one round of retries. Use it as ``async with``.

    A letter that is sent again before its tombstone was written (the command was killed between) is sent twice, with the
    same ``metric_id`` and the header ``switchgear.resent``: the sink stores one.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames) -> None:
        self._connection = connection
        self._topics = topics
        self._producer: Any = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            BrokerUnavailableError: no broker answered within 20 s.
        """
        producer = AIOKafkaProducer(
            **self._connection.options(), acks="all", enable_idempotence=True, max_request_size=6 * MAX_EVENT_BYTES
        )
        try:
            await asyncio.wait_for(producer.start(), _START_LIMIT_S)
        except (KafkaError, OSError, TimeoutError) as error:
            await producer.stop()
            raise self._away(error) from error
        self._producer = producer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.stop()

    async def send(self, letters: Sequence[StoredLetter], repairs: Mapping[str, bytes]) -> AsyncIterator[Outcome]:
        """Send each letter, with its repaired bytes where ``repairs`` (by key) has them; yield what became of each.

        Raises:
            BrokerUnavailableError: the broker did not acknowledge in 30 s; what was not yielded is still a dead letter.
        """
        for start in range(0, len(letters), _AT_ONCE):
            ready: list[tuple[StoredLetter, str, bytes]] = []
            for letter in letters[start : start + _AT_ONCE]:
                try:
                    ready.append((letter, *self._prepared(letter, repairs)))
                except InvalidExecutionError as error:
                    yield Outcome(letter, error)
            try:
                async with asyncio.timeout(_ACKNOWLEDGE_LIMIT_S):
                    await self._send(ready)
            except (KafkaError, OSError, TimeoutError) as error:
                raise self._away(error) from error
            for letter, _, _ in ready:
                yield Outcome(letter)

    def _prepared(self, letter: StoredLetter, repairs: Mapping[str, bytes]) -> tuple[str, bytes]:
        repaired = repairs.get(letter.key)
        refusal = why_not(letter, self._topics.executions, repaired)
        if refusal is not None:
            raise refusal
        return prepared(letter, letter.letter.body if repaired is None else repaired)

    async def _send(self, ready: Sequence[tuple[StoredLetter, str, bytes]]) -> None:
        count = len(await self._producer.partitions_for(self._topics.executions))
        sent = [
            await self._producer.send(
                self._topics.executions,
                value,
                key=tool.encode(),
                partition=owner_partition(tool, count),
                headers=[(headers.RESENT, b"1"), (RETRIED, letter.letter.key)],
            )
            for letter, tool, value in ready
        ]
        await asyncio.gather(*sent)
        buried = [
            await self._producer.send(self._topics.dead, None, key=letter.letter.key, partition=letter.partition)
            for letter, _, _ in ready
        ]
        await asyncio.gather(*buried)

    def _away(self, error: BaseException) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"Kafka at {self._connection.bootstrap_servers} did not answer: {str(error) or type(error).__name__}.",
            hint="What was not reported as sent is still a dead letter: try again.",
        )
