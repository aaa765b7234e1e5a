"""Send executions to Kafka, with an answer for each: acknowledged, refused, or unknown. It lives in the server's event loop.

The outbox of the SDK's emitter does the sending. The emitter itself isn't used, because it may drop the oldest events of its buffer.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from switchgear.emitter.outbox import Outbox
from switchgear.emitter.record_batch import STOPPED, RecordBatch
from switchgear_access.problem import ProblemError
from switchgear_gateway.bodies import busy
from switchgear_schemas.settings import Settings

log: Final = logging.getLogger("switchgear.gateway")

MAX_EVENTS: Final = 50_000
"""Events that are sent and not yet answered."""
MAX_BYTES: Final = 64 * 1_048_576
"""Their size."""
_AWAY_RETRY_S: Final = 2
_POLL_S: Final = 0.02


class Submission:
    """Some records that are on their way.

    Args:
        count: How many.
        limit_s: The longest wait for their answers.

    Attributes:
        refused: Position and reason of each record that Kafka refused.
    """

    def __init__(self, count: int, limit_s: float) -> None:
        self._limit_s = limit_s
        self._open = [True] * count
        self._left = count
        self._done = asyncio.Event()
        self.refused: list[tuple[int, str]] = []
        if not count:
            self._done.set()

    async def wait(self) -> list[int]:
        """Wait until Kafka has answered for every record, or the time is over. Return the positions without an answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limit_s):
                await self._done.wait()
        return [position for position, still in enumerate(self._open) if still]

    def answer(self, position: int, reason: str | None) -> None:
        """Take the answer for one record."""
        if reason is None:
            self._open[position] = False
        elif reason != STOPPED:  # else it stays unknown
            self._open[position] = False
            self.refused.append((position, reason))
        self._left -= 1
        if not self._left:
            self._done.set()


class Publisher:
    """Sends records within bounds.

    Args:
        settings: The brokers, the topic and the longest wait.
        registry: Takes the metrics.
        max_events: The most records on their way.
        max_bytes: Their size.
    """

    def __init__(
        self,
        settings: Settings,
        registry: CollectorRegistry,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._ack_s = settings.gateway_ack_s
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._bytes = 0
        self._outbox = Outbox(
            settings.kafka,
            settings.topics.executions,
            limit=max_events,
            compression=None,
            family_pattern=settings.family_pattern,
        )
        events = Counter(
            "switchgear_gateway_events",
            "Executions of clients, by what became of them.",
            ("result",),
            registry=registry,
        )
        self.acknowledged, self.refused, self.unknown, self.rejected = (
            events.labels(result) for result in ("acknowledged", "refused", "unknown", "rejected")
        )
        Gauge(
            "switchgear_gateway_events_in_flight", "Executions without Kafka's answer.", registry=registry
        ).set_function(lambda: self._outbox.pending)
        Gauge("switchgear_gateway_bytes_in_flight", "Their size.", registry=registry).set_function(lambda: self._bytes)

    @property
    def ready(self) -> bool:
        """Whether Kafka answers."""
        return self._outbox.connected and self._outbox.away_s(time.monotonic()) is None

    @property
    def in_flight(self) -> int:
        """How many records have no answer yet."""
        return self._outbox.pending

    async def run(self) -> None:
        """Keep a producer ready, until cancelled."""
        await self._outbox.run()

    def submit(self, records: Sequence[tuple[str, bytes]], *, resent: bool = False) -> Submission:
        """Begin to send records, in the order of each tool.

        Args:
            records: Tool and encoded execution.
            resent: Kafka may have them already.

        Raises:
            ProblemError: Nothing was taken, because too many are on their way (429) or Kafka does not answer (503).
        """
        size = sum(len(value) for _, value in records)
        if self._outbox.away_s(time.monotonic()) is not None:
            raise ProblemError(
                503,
                "Kafka does not answer. Nothing was stored.",
                "Send it again later.",
                {"Retry-After": str(_AWAY_RETRY_S)},
            )
        if self._outbox.pending + len(records) > self._max_events or self._bytes + size > self._max_bytes:
            raise busy("Too many executions wait for Kafka.")
        found = Submission(len(records), self._ack_s)
        self._bytes += size
        self._outbox.offer(
            RecordBatch(tool, [value], functools.partial(self._answered, found, position, len(value)), resent)
            for position, (tool, value) in enumerate(records)
        )
        return found

    async def flush(self, limit_s: float) -> bool:
        """Wait until every record has its answer. Return False if ``limit_s`` seconds were not enough."""
        try:
            async with asyncio.timeout(limit_s):
                while self._outbox.pending:  # noqa: ASYNC110 - the outbox has a count, no event
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            log.warning("the gateway ends with %d executions that Kafka did not acknowledge", self._outbox.pending)
            return False
        return True

    def _answered(self, submission: Submission, position: int, size: int, reason: str | None) -> None:
        self._bytes -= size
        if reason is None:
            self.acknowledged.inc()
        elif reason != STOPPED:
            self.refused.inc()
        submission.answer(position, reason)
