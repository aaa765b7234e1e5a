"""Send dead letters. The broker acknowledges them before the offset moves past the rejected messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.dead_letter import DeadLetter, send_letters
from switchgear_schemas.enums import MAX_LETTER_BYTES
from switchgear_sinks.writer.settings import WriterMetrics

log = structlog.get_logger()

_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 2 * MAX_LETTER_BYTES
_BATCH_BYTES: Final = 512 * 1024
_WAIT_S: Final = 1.0
_REPORT_EVERY_S: Final = 5.0


class DeadLetterProducer:
    """A producer for the dead-letter topic. A letter that is sent twice has the same key, so compaction leaves one."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        metrics: WriterMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic = topic
        self._metrics = metrics
        self._connection = connection
        self._clock = clock
        self._producer: Any = None
        self._unreported = 0
        self._reported_at = float("-inf")

    async def start(self) -> None:
        """Connect.

        Raises:
            aiokafka.errors.KafkaConnectionError: No broker answered.
        """
        producer = AIOKafkaProducer(  # not idempotent: see LetterProducer
            **self._connection.options(),
            acks="all",
            max_request_size=2 * MAX_LETTER_BYTES,
            max_batch_size=_BATCH_BYTES,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        self._producer = producer

    async def stop(self) -> None:
        """Log what was not logged yet, and disconnect."""
        if self._unreported:
            log.warning("messages rejected, kept as dead letters", count=self._unreported)
            self._unreported = 0
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send(self, letters: Sequence[DeadLetter]) -> None:
        """Send the letters and return when the broker has acknowledged them. While no broker answers, keep trying.

        A letter that is too large for its topic is cut. One that is refused even without its value is logged and counted.
        """
        for part in _parts(letters):
            while (refused := await self._try(part)) is None:  # noqa: ASYNC110 - a broker does not announce that it is back
                await asyncio.sleep(_WAIT_S)
            self._report(part, refused)

    def _report(self, letters: Sequence[DeadLetter], refused: Sequence[DeadLetter]) -> None:
        """Count the letters, and log one line every few seconds, because a topic full of invalid messages must not fill the log."""
        for letter in letters:
            self._metrics.dead_letters.labels(letter.topic).inc()
        for letter in refused:
            self._metrics.lost_letters.labels(letter.topic).inc()
        if refused:
            log.error(
                "the dead-letter topic refuses letters even without their value, because they are too large; they are lost",
                topic=self._topic,
                count=len(refused),
                first=refused[0].key.decode(),
                hint="raise the topic's max.message.bytes: `switchgear topics ensure` shows the difference",
            )
        self._unreported += len(letters)
        now = self._clock()
        if now - self._reported_at < _REPORT_EVERY_S:
            return
        first, count, self._unreported, self._reported_at = letters[0], self._unreported, 0, now
        log.warning(
            "messages rejected, kept as dead letters",
            count=count,
            last=first.key.decode(),
            field=first.field,
            reason=first.reason,
        )

    async def _try(self, letters: Sequence[DeadLetter]) -> list[DeadLetter] | None:
        """Return the letters that the topic refuses as too large; None if the broker did not acknowledge."""
        try:
            return await send_letters(self._producer, self._topic, letters)
        except (KafkaError, OSError) as error:
            log.warning("dead letters not acknowledged, trying again", reason=str(error) or type(error).__name__)
            return None


def _parts(letters: Sequence[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Yield the letters, cut to the size their topic takes, in parts that a producer can hold."""
    part: list[DeadLetter] = []
    size = 0
    for letter in letters:
        truncated = letter.truncate()
        if part and (len(part) >= _AT_ONCE or size + truncated.size > _BYTES_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(truncated)
        size += truncated.size
    if part:
        yield part
