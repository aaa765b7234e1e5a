"""Send executions to Kafka, with an answer for each: acknowledged, refused, or unknown. It lives in the server's event loop.

The outbox of the SDK's emitter does the sending. The emitter itself isn't used, because it may drop the oldest events of its buffer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from switchgear.emitter.outbox import Outbox
from switchgear.emitter.record_batch import STOPPED, RecordBatch, RunAnswer
from switchgear_gateway.bodies import busy
from switchgear_gateway.checking import Run
from switchgear_http.problem import ProblemError
from switchgear_http.turns import Turn
from switchgear_schemas.settings import Settings

log: Final = logging.getLogger("switchgear.gateway")

MAX_EVENTS: Final = 50_000
"""Events that are sent and not yet answered."""
MAX_BYTES: Final = 64 * 1_048_576
"""Their size."""
_AWAY_AFTER_S: Final = 5.0
"""Without an answer of Kafka for this time, or for half of the wait of a request, new requests are refused at once."""
LINGER_S: Final = 0.005
"""A batch waits so long for more executions of its partition, as Kafka's own producers do since 4.0. A batch has a fixed cost."""
_AWAY_RETRY_S: Final = 2
_POLL_S: Final = 0.02
_SOME_TOOLS: Final = 200
"""Tools whose executions are handed over before others go on."""


class Submission:
    """Some executions that are on their way.

    Args:
        runs: The executions.
        limit_s: The longest wait for their answers.
        done: Called when Kafka has answered for every one.

    Attributes:
        refused: Index and reason of each that Kafka refused.
        given_up: Whether its client no longer waits. It may send the executions again, to another gateway. Those that this one has not
            handed to Kafka yet are marked from then on, because the client's copies may arrive before them.
    """

    def __init__(self, runs: Collection[Run], limit_s: float, done: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._runs = runs
        self._all_answered = done
        self._left = sum(len(run.values) for run in runs)
        self._answered: list[Sequence[int]] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refused: list[tuple[int, str]] = []
        self.given_up = False
        if not self._left:
            self._end()

    async def wait(self, gone: asyncio.Future[None] | None = None) -> list[int]:
        """Wait until Kafka has answered for every execution, or the time is over.

        Args:
            gone: Done when the client has gone. Then the wait is over, too.

        Returns:
            The indices without an answer.
        """
        try:
            if not self._done.done():
                limit = asyncio.get_running_loop().call_later(self._limit_s, self._end)
                if gone is not None:
                    gone.add_done_callback(lambda _: self._end())
                try:
                    await self._done
                finally:
                    limit.cancel()
        finally:
            self.given_up = self._left > 0
        if not self._left:
            return []
        answered = {index for indices in self._answered for index in indices}
        return sorted(index for run in self._runs for index in run.indices if index not in answered)

    def answer(self, indices: Sequence[int], reason: str | None) -> None:
        """Take the answer for some executions. Those of a publisher that stopped stay unknown."""
        if reason == STOPPED:
            return
        self._answered.append(indices)
        self._left -= len(indices)
        if reason is not None:
            self.refused += [(index, reason) for index in indices]
        if not self._left:
            self._all_answered()
            self._end()

    def _end(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


class _SubmissionAnswer(RunAnswer):
    """Takes the answer for executions of one tool."""

    __slots__ = ("_run", "_submission")

    def __init__(self, submission: Submission, run: Run) -> None:
        self._submission = submission
        self._run = run

    @property
    def given_up(self) -> bool:
        return self._submission.given_up

    def __call__(self, reason: str | None) -> None:
        self._submission.answer(self._run.indices, reason)

    def part(self, first: int, count: int) -> _SubmissionAnswer:
        part = slice(first, first + count)
        return _SubmissionAnswer(self._submission, Run(self._run.values[part], self._run.indices[part]))


class Publisher(Collector):
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
        self._outbox = Outbox(
            settings.kafka,
            settings.topics.executions,
            limit=max_events,
            compression=None,
            linger_s=LINGER_S,
            family_pattern=settings.family_pattern,
        )
        self.bytes_in_flight = 0
        """Size of the requests for which Kafka has not answered yet."""
        self._handed_over = 0
        """Records that are being handed to the outbox."""
        self.rejected = 0
        """Executions that were wrong, or not allowed to their client."""
        self.unknown = 0
        """Executions for which Kafka did not answer in time."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        events = CounterMetricFamily(
            "switchgear_gateway_events", "Executions of clients, by what became of them.", labels=["result"]
        )
        outbox = self._outbox
        for result, count in (
            ("acknowledged", outbox.acknowledged),
            ("refused", outbox.failed),
            ("unknown", self.unknown),
            ("rejected", self.rejected),
        ):
            events.add_metric([result], count)
        yield events
        yield GaugeMetricFamily(
            "switchgear_gateway_events_in_flight", "Executions without Kafka's answer.", value=outbox.pending
        )
        yield GaugeMetricFamily("switchgear_gateway_bytes_in_flight", "Their size.", value=self.bytes_in_flight)

    @property
    def ready(self) -> bool:
        """Whether Kafka answers."""
        return self._outbox.connected and self._outbox.away_s(time.monotonic()) is None

    @property
    def in_flight(self) -> int:
        """How many records have no answer yet."""
        return self._outbox.pending + self._handed_over

    async def run(self) -> None:
        """Keep a producer ready, until cancelled."""
        await self._outbox.run()

    async def submit(self, runs: Mapping[str, Run], turn: Turn, *, resent: bool = False) -> Submission:
        """Begin to send executions, in the order of each tool.

        Args:
            runs: The executions by tool.
            turn: Lets others go on while many tools are handed over.
            resent: Kafka may have them already.

        Raises:
            ProblemError: Nothing was taken, because too many are on their way (429) or Kafka does not answer (503).
        """
        count = size = 0
        for run in runs.values():
            count += len(run.values)
            size += sum(map(len, run.values))
        away = self._outbox.silent_s(time.monotonic()) >= min(_AWAY_AFTER_S, self._ack_s / 2)
        if away or not self._outbox.knows_partitions:
            raise ProblemError(
                503,
                "Kafka does not answer. Nothing was stored.",
                "Send it again later.",
                {"Retry-After": str(_AWAY_RETRY_S)},
            )
        if self.in_flight + count > self._max_events or self.bytes_in_flight + size > self._max_bytes:
            raise busy("Too many executions wait for Kafka.")
        found = Submission(runs.values(), self._ack_s, lambda: self._release(size))
        self.bytes_in_flight += size  # 0 if there is no execution
        self._handed_over += count
        left = iter(runs.items())
        try:
            while some := list(islice(left, _SOME_TOOLS)):
                self._hand_over(some, found, resent=resent)
                await turn.pause()
        except asyncio.CancelledError:
            self._hand_over(list(left), found, resent=resent)  # it has its place, and is answered
            raise
        return found

    def _hand_over(self, runs: Sequence[tuple[str, Run]], submission: Submission, *, resent: bool) -> None:
        self._handed_over -= sum(len(run.values) for _, run in runs)
        self._outbox.offer(
            RecordBatch(tool, run.values, _SubmissionAnswer(submission, run), resent) for tool, run in runs
        )

    def _release(self, size: int) -> None:
        self.bytes_in_flight -= size

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
