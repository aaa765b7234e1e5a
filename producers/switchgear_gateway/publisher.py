"""Send executions to Kafka, with an answer for each: acknowledged, refused, or unknown. It lives in the server's event loop.

The outbox of the SDK's emitter does the sending. The emitter itself isn't used, because it may drop the oldest events of its buffer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from switchgear.emitter.outbox import Outbox
from switchgear.emitter.record_batch import STOPPED, RecordBatch, RunAnswer
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
        given_up: Whether its client no longer waits. It may send the records again, to another gateway. Those that this one has not
            handed to Kafka yet are marked from then on, because the client's copies may arrive before them.
    """

    def __init__(self, count: int, limit_s: float) -> None:
        self._limit_s = limit_s
        self._count = count
        self._left = count
        self._answered: list[Sequence[int]] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refused: list[tuple[int, str]] = []
        self.given_up = False
        if not count:
            self._done.set_result(None)

    async def wait(self, gone: asyncio.Future[None] | None = None) -> list[int]:
        """Wait until Kafka has answered for every record, or the time is over.

        Args:
            gone: Done when the client has gone. Then the wait is over, too.

        Returns:
            The positions without an answer.
        """
        if not self._done.done():
            waited = [self._done] if gone is None else [self._done, gone]
            await asyncio.wait(waited, timeout=self._limit_s, return_when=asyncio.FIRST_COMPLETED)
        if not self._left:
            return []
        self.given_up = True
        answered = {position for positions in self._answered for position in positions}
        return [position for position in range(self._count) if position not in answered]

    def answer(self, positions: Sequence[int], reason: str | None) -> None:
        """Take the answer for some records. Those of a publisher that stopped stay unknown."""
        if reason == STOPPED:
            return
        self._answered.append(positions)
        self._left -= len(positions)
        if reason is not None:
            self.refused += [(position, reason) for position in positions]
        if not self._left and not self._done.done():
            self._done.set_result(None)


class _Run(RunAnswer):
    """The answer of the records of one tool in a submission."""

    __slots__ = ("_positions", "_publisher", "_sizes", "_submission")

    def __init__(
        self, publisher: Publisher, submission: Submission, positions: Sequence[int], sizes: Sequence[int]
    ) -> None:
        self._publisher = publisher
        self._submission = submission
        self._positions = positions
        self._sizes = sizes

    @property
    def given_up(self) -> bool:
        return self._submission.given_up

    def __call__(self, reason: str | None) -> None:
        self._publisher.settle(len(self._positions), sum(self._sizes), reason)
        self._submission.answer(self._positions, reason)

    def part(self, first: int, count: int) -> _Run:
        part = slice(first, first + count)
        return _Run(self._publisher, self._submission, self._positions[part], self._sizes[part])


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
            RecordBatch(tool, [records[each][1] for each in positions], self._run(found, records, positions), resent)
            for tool, positions in by_tool(records).items()
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

    def settle(self, count: int, size: int, reason: str | None) -> None:
        """Count answers."""
        self._bytes -= size
        if reason is None:
            self.acknowledged.inc(count)
        elif reason != STOPPED:
            self.refused.inc(count)

    def _run(self, submission: Submission, records: Sequence[tuple[str, bytes]], positions: Sequence[int]) -> _Run:
        return _Run(self, submission, positions, [len(records[each][1]) for each in positions])


def by_tool(records: Sequence[tuple[str, bytes]]) -> dict[str, list[int]]:
    """Return the positions of each tool's records."""
    found: dict[str, list[int]] = {}
    for position, (tool, _) in enumerate(records):
        if tool in found:
            found[tool].append(position)
        else:
            found[tool] = [position]
    return found
