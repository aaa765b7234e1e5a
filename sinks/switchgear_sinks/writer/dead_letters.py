"""Sending dead letters: acknowledged by the broker before the offset moves past the message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.execution import MAX_EVENT_BYTES
from switchgear_sinks.writer.metrics import WriterMetrics

log = structlog.get_logger()

_AT_ONCE: Final = 200
_WAIT_S: Final = 1.0


class DeadLetters:
    """An idempotent producer of the dead-letter topic. A letter that goes out twice has the same key: it compacts to one."""

    def __init__(self, connection: KafkaConnection, topic: str, metrics: WriterMetrics) -> None:
        self._topic = topic
        self._metrics = metrics
        self._connection = connection
        self._producer: Any = None

    async def start(self) -> None:
        """Connect.

        Raises:
            aiokafka.errors.KafkaConnectionError: no broker answered.
        """
        producer = AIOKafkaProducer(
            **self._connection.options(),
            acks="all",
            enable_idempotence=True,
            max_request_size=6 * MAX_EVENT_BYTES,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        self._producer = producer

    async def stop(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send(self, letters: Sequence[DeadLetter]) -> None:
        """Return when every letter is on the broker; as long as there is none, try on.

        Raises:
            SwitchgearError: the broker refuses messages of this size.
        """
        for start in range(0, len(letters), _AT_ONCE):
            part = letters[start : start + _AT_ONCE]
            while not await self._try(part):  # noqa: ASYNC110 - the broker tells nobody that it is back
                await asyncio.sleep(_WAIT_S)
            self._report(part)

    def _report(self, letters: Sequence[DeadLetter]) -> None:
        """One line however many there are: a poisoned topic must not fill the log too."""
        for letter in letters:
            self._metrics.dead_letters.labels(letter.topic).inc()
        first = letters[0]
        log.warning(
            "messages rejected, kept as dead letters",
            count=len(letters),
            first=first.key.decode(),
            field=first.field,
            reason=first.reason,
        )

    async def _try(self, letters: Sequence[DeadLetter]) -> bool:
        try:
            sent = [
                await self._producer.send(self._topic, value=each.body, key=each.key, headers=each.headers())
                for each in letters
            ]
            await asyncio.gather(*sent)
        except MessageSizeTooLargeError as error:
            raise SwitchgearError(
                f"The topic {self._topic} refuses a dead letter for its size.",
                hint="Raise its max.message.bytes above that of the executions topic: `switchgear topics ensure` shows the difference.",
            ) from error
        except (KafkaError, OSError) as error:
            log.warning("dead letters not acknowledged, trying again", reason=str(error) or type(error).__name__)
            return False
        return True
