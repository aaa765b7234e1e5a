"""Sends an emitter's events to a gateway: one request at a time, oldest first, so that the order of each tool is kept.

While a request waits for its answer, the next batch fills. What got no answer is sent again with the header ``Switchgear-Resent``,
so that an event that Kafka has already counts once.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from switchgear.emitter.record_batch import PartitionQueue, RecordBatch, singles, total
from switchgear.emitter.sender import Sender
from switchgear.over_http.gateway import KEEP_ALIVE_S, Gateway
from switchgear.over_http.replies import GatewayReply, not_reached, read_reply
from switchgear.runtime.background_thread import clean_up, stop_if_cancelled
from switchgear.runtime.backoff import Backoff
from switchgear.runtime.throttled_log import BoundedLog

if TYPE_CHECKING:
    import httpx

log: Final = logging.getLogger("switchgear.emitter")

MOST_EVENTS: Final = 2_000
MOST_BYTES: Final = 786_432
"""Size of a request before compression. One event that is larger goes alone."""
GZIP_FROM: Final = 4_096
"""Smaller bodies don't save a packet."""
_ANSWER_LIMIT_S: Final = 40.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 30.0
_LONGEST_WAIT_S: Final = 600.0
_CLOSE_LIMIT_S: Final = 1.0
_MOST_WARNINGS: Final = 10
_MOST_TEXT: Final = 500


class GatewaySender(Sender):
    """Sends records to a gateway. It connects when there is something to send, so an idle process costs the gateway nothing.

    Args:
        gateway: The gateway.
        limit: The most records that wait or are in flight.
        wall: Returns seconds since 1970. It goes on while a process is frozen.
    """

    def __init__(self, gateway: Gateway, limit: int, *, wall: Callable[[], float] = time.time) -> None:
        super().__init__(limit)
        self._gateway = gateway
        self._wall = wall
        self._queue = self._queues[0] = PartitionQueue()
        self._work = asyncio.Event()
        self._up = False
        self._client: httpx.AsyncClient | None = None
        self._used_at = 0.0
        self._most = MOST_EVENTS
        self._backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, spread=(0.5, 1.0))
        self._warned = BoundedLog(log)

    @property
    def connected(self) -> bool:
        """Whether the last request got an answer, or none was sent yet."""
        return self._up

    def offer(self, batches: Iterable[RecordBatch]) -> None:
        """Queue records. Call :meth:`room` before. Records that are too large are refused at once."""
        if not self.pending and self._up:
            self._progress_at = time.monotonic()
        for batch in self._sendable(batches):
            self._queue.add(batch)
        if self._queue.waiting:
            self._work.set()

    async def run(self) -> None:
        """Send what is offered until cancelled."""
        self.started = self._up = True
        self._progress_at = time.monotonic()
        self._space.set()
        try:
            while True:
                if not self._queue.waiting:
                    self._work.clear()
                    await self._work.wait()
                await self._exchange()
        finally:
            await self._close_client()
            self._stop_waiting()

    async def _exchange(self) -> None:
        """Send one batch, and take its answer."""
        queue = self._queue
        batches = queue.in_flight = take(queue.waiting, self._most)
        try:
            reply = await self._post(batches)
            stop_if_cancelled()
        except asyncio.CancelledError:
            _mark_resent(batches)
            queue.in_flight = []
            queue.waiting.extendleft(reversed(batches))
            raise
        queue.in_flight = []
        self._take(reply, batches)
        if reply.problem is None:
            self._recovered()
        else:
            await self._failed(reply)

    async def _post(self, batches: list[RecordBatch]) -> GatewayReply:
        import httpx  # noqa: PLC0415 - see Gateway.client

        count = total(batches)
        body = b"\n".join(chain.from_iterable(batch.values for batch in batches))
        headers = {"Content-Type": "application/x-ndjson"}
        if batches[0].resent:
            headers["Switchgear-Resent"] = "true"
        if len(body) >= GZIP_FROM:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        try:
            client = await self._open_client()
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                answer = await client.post("/v1/executions", content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return not_reached(self._away(error), count, sent=False)
        except Exception as error:  # noqa: BLE001 - whatever the error, the gateway may have the events
            return not_reached(self._away(error), count, sent=True)
        self._used_at = self._wall()
        return read_reply(self._gateway, answer.status_code, answer.headers, answer.content, count)

    async def _open_client(self) -> httpx.AsyncClient:
        """Return the client. Its connections are lost if this process was frozen longer than they are kept."""
        if self._client is not None and self._wall() - self._used_at > KEEP_ALIVE_S:
            await self._close_client()
        if self._client is None:
            self._client = self._gateway.client()
            self._used_at = self._wall()
        return self._client

    async def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await clean_up(client.aclose(), _CLOSE_LIMIT_S, "closing the connection to a gateway")

    def _away(self, error: Exception) -> str:
        return f"the gateway at {self._gateway.url} can't be reached: {str(error) or type(error).__name__}"

    def _take(self, reply: GatewayReply, batches: list[RecordBatch]) -> None:
        """Settle each record as the reply says, and put those to send again back in front."""
        queue = self._queue
        for warning in reply.warnings[:_MOST_WARNINGS]:
            self._warned.warning(f"the gateway says: {warning[:_MOST_TEXT]}")
        if not (reply.rejected or reply.again):
            self._acknowledge(batches, total(batches))
            queue.answered += total(batches)  # last: a flush in another thread ends with it and then reads the counts
            return
        if reply.rejected:  # said first: a flush in another thread may end with the last of these counts
            reason = next(iter(reply.rejected.values()))
            log.error("%d events were refused by the gateway, the first one: %s", len(reply.rejected), reason)
        again = set(reply.again)
        records = singles(batches)
        waiting: list[RecordBatch] = []
        for index, record in enumerate(records):
            if index in again:
                record.resent = record.resent or reply.resent
                waiting.append(record)
            elif index in reply.rejected:
                self._refuse(record, reply.rejected[index], quiet=True)
            else:
                self._acknowledge([record], 1)
        queue.waiting.extendleft(reversed(waiting))
        queue.answered += len(records) - len(waiting)

    def _recovered(self) -> None:
        if not self._up:
            log.info("the gateway at %s can be reached again", self._gateway.url)
        self._up = True
        self._backoff.reset()
        self.failed_attempts = 0
        self._most = min(2 * self._most, MOST_EVENTS)
        self._space.set()

    async def _failed(self, reply: GatewayReply) -> None:
        assert reply.problem is not None
        worked = self._up
        self._up = not reply.down
        if reply.down:
            self.failed_attempts += (
                2 if reply.denied else 1
            )  # at the end of the process a refused token is not tried twice
        if reply.split:
            self._most = max(1, len(reply.again) // 2)
            return
        pause = self._backoff.next_s()
        if reply.wait_s is not None:
            pause = min(reply.wait_s, _LONGEST_WAIT_S) + min(pause, reply.wait_s)
        elif worked and reply.down:
            pause = 0.0  # perhaps the gateway only closed an idle connection
        self._note(reply.problem, pause)
        if pause and await self._paused(pause):
            self._backoff.reset()


def take(waiting: deque[RecordBatch], most: int) -> list[RecordBatch]:
    """Move the oldest records from ``waiting`` into one request: at most ``most``, all of them sent before or none. At least one goes."""
    found: list[RecordBatch] = []
    count = size = 0
    while waiting and count < most and size < MOST_BYTES and waiting[0].resent == (found or waiting)[0].resent:
        batch = waiting.popleft()
        fits = 0
        for value in batch.values[: most - count]:
            if count + fits and size + len(value) > MOST_BYTES:
                break
            size += len(value)
            fits += 1
        count += fits
        if fits == len(batch.values):
            found.append(batch)
            continue
        if fits:
            found.append(RecordBatch(batch.tool, batch.values[:fits], resent=batch.resent))
        waiting.appendleft(RecordBatch(batch.tool, batch.values[fits:], batch.answer, batch.resent))
        break
    return found


def _mark_resent(batches: Iterable[RecordBatch]) -> None:
    for batch in batches:
        batch.resent = True


class GatewayDestination(NamedTuple):
    """Where an emitter sends its events: a gateway."""

    gateway: Gateway

    @property
    def name(self) -> str:
        """The gateway."""
        return "the gateway"

    @property
    def address(self) -> str:
        """Its address."""
        return self.gateway.url

    def sender(self, limit: int) -> GatewaySender:
        """Return a sender for at most ``limit`` records at a time."""
        return GatewaySender(self.gateway, limit)
