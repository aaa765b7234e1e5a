"""Deliver the messages of one receiver: in order, again and again, and at last into the dead-letter file."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence

import structlog

from switchgear.runtime.backoff import backoff_s
from switchgear_alerts.config import Retry
from switchgear_alerts.dead_letters import DeadLetterFile
from switchgear_alerts.errors import DeliveryError
from switchgear_alerts.messages import Change, Message
from switchgear_alerts.metrics import AlertsMetrics
from switchgear_alerts.receivers.base import Receiver

log = structlog.get_logger()


class Delivery:
    """Sends one message at a time, so that a receiver gets the changes of a circuit in their order.

    Args:
        name: The receiver's name.
        receiver: Where to send.
        retry: Waits and limits.
        dead: For messages that are given up.
        metrics: What is counted.
        firing: Returns the open incidents, for receivers that want them again and again.
        now: Seconds since 1970.
    """

    def __init__(
        self,
        name: str,
        receiver: Receiver,
        retry: Retry,
        dead: DeadLetterFile,
        metrics: AlertsMetrics,
        firing: Callable[[], Sequence[Change]],
        now: Callable[[], float],
    ) -> None:
        self.name = name
        self._receiver = receiver
        self._retry = retry
        self._dead = dead
        self._metrics = metrics
        self._firing = firing
        self._now = now
        self._queue: deque[Message] = deque()
        self._queued: set[str] = set()
        self._added = asyncio.Event()
        self._finished: list[str] = []
        self._renew_at: float | None = None
        """When the open incidents are sent again, by the loop's clock."""

    def put(self, message: Message) -> None:
        """Send a message after the others. One that is in the queue already is ignored."""
        if message.id not in self._queued:
            self._queued.add(message.id)
            self._queue.append(message)
            self._added.set()

    def take_finished(self) -> list[str]:
        """Return the ids of messages that were delivered or given up since the last call."""
        found, self._finished = self._finished, []
        self._queued.difference_update(found)
        return found

    async def run(self) -> None:
        """Send until cancelled."""
        self._plan_renewal()
        while True:
            await self._renew_if_due()
            if self._queue:
                await self._finish(self._queue[0])
                self._finished.append(self._queue.popleft().id)
            else:
                self._added.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(self._renew_at):
                        await self._added.wait()

    async def _finish(self, message: Message) -> None:
        """Return when the message is delivered, or in the dead-letter file."""
        tries = 0
        while True:
            if tries:
                self._metrics.retried.labels(self.name).inc()
            failure = await self._try(message)
            if failure is None:
                return
            tries += 1
            age = self._now() - message.created_at
            if (failure.permanent or age >= self._retry.give_up_after) and await self.bury(message, failure.message):
                return
            await self._wait(wait_s(self._retry, tries, failure.retry_after_s))

    async def _wait(self, seconds: float) -> None:
        """Wait between two tries of a message. The open incidents are sent again meanwhile: a receiver would take them for resolved."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while (left := until - clock()) > 0:
            await asyncio.sleep(left if self._renew_at is None else min(left, self._renew_at - clock()))
            await self._renew_if_due()

    def _plan_renewal(self) -> None:
        every = self._receiver.renew_every_s
        self._renew_at = None if every is None else asyncio.get_running_loop().time() + every

    async def _renew_if_due(self) -> None:
        if self._renew_at is not None and asyncio.get_running_loop().time() >= self._renew_at:
            await self._renew()
            self._plan_renewal()

    async def _try(self, message: Message) -> DeliveryError | None:
        try:
            answer = await self._receiver.send(message)
        except DeliveryError as error:
            failure = error
        except Exception as error:  # a message that can't be laid out must not stop the others
            log.exception("a message could not be made", receiver=self.name, id=message.id)
            failure = DeliveryError(f"could not be made: {type(error).__name__}", permanent=True)
        else:
            self._metrics.delivered.labels(self.name).inc()
            log.info("delivered", receiver=self.name, id=message.id, kind=message.kind, answer=answer)
            return None
        self._metrics.failed.labels(self.name).inc()
        log.warning("not delivered", receiver=self.name, id=message.id, reason=failure.message)
        return failure

    async def bury(self, message: Message, reason: str) -> bool:
        """Write a message into the dead-letter file. Return False if the disk didn't take it."""
        try:
            await asyncio.to_thread(self._dead.write, message, reason, self._now())
        except OSError as error:
            log.error("the dead-letter file can't be written", file=str(self._dead.file), reason=error.strerror)  # noqa: TRY400
            return False
        self._metrics.dead.labels(self.name).inc()
        log.error("given up", receiver=self.name, id=message.id, reason=reason, file=str(self._dead.file))
        return True

    async def _renew(self) -> None:
        firing = self._firing()
        if not firing:
            return
        try:
            await self._receiver.renew(firing)
        except DeliveryError as error:  # the next renewal comes soon
            self._metrics.failed.labels(self.name).inc()
            log.warning("open incidents were not sent again", receiver=self.name, reason=error.message)
        except Exception:  # what can't be laid out must not stop the messages
            self._metrics.failed.labels(self.name).inc()
            log.exception("open incidents could not be sent again", receiver=self.name)


def wait_s(retry: Retry, tries: int, asked_s: float | None) -> float:
    """Return how long to wait after failed tries: twice as long each time, spread, and not less than the receiver asked for.

    Args:
        retry: The shortest and the longest wait.
        tries: Failed tries so far, at least one.
        asked_s: What the receiver asked for, in seconds.
    """
    return max(backoff_s(tries, retry.first, retry.longest, spread=(0.5, 1.0)), asked_s or 0.0)
