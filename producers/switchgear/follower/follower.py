"""Read the circuits topic to its end, then follow it.

The consumer reads all partitions and has no group, so every process has the whole table. If the broker is down, or the topic doesn't
exist yet, the follower tries again, and the table keeps what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

from switchgear import arguments
from switchgear.arguments import FromEnv
from switchgear.follower.status import FRESH_S, STALE_AFTER_S, BrokerTime, FollowerStatus, LastAnswer
from switchgear.follower.table import CircuitTable
from switchgear.follower.view import CircuitView
from switchgear.runtime.background_thread import Background, NotStartedError, clean_up, stop_if_cancelled
from switchgear.runtime.fork import call_in_child, importing
from switchgear.runtime.throttled_log import Throttle
from switchgear_schemas.connection import METADATA_MAX_AGE_MS, KafkaConnection
from switchgear_schemas.records import unreadable
from switchgear_schemas.topics import TopicNames

log: Final = logging.getLogger("switchgear.follower")

_CONNECT_LIMIT_S: Final = 20.0
_REPORT_EVERY_S: Final = 5.0
_POLL_MS: Final = 500
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_STOP_LIMIT_S: Final = 2.0
_LAG_EVERY_S: Final = 1.0
_LOOK_S: Final = 0.005
_LONGEST_LOOK_S: Final = 0.05
"""For coroutines, because a thousand of them may wait at once."""


class _TopicChangedError(Exception):
    """The topic was deleted, and perhaps created again with versions from the start, or it has more partitions now."""


class CircuitFollower(FromEnv):
    """Keeps the table of circuits current in the background.

    Attributes:
        table: The circuits.
        loaded: Whether the topic was read once, to the end that it had at the start.
        broker_time: The broker's clock.
        listeners: Called with every changed view, in the background thread.
    """

    _settings = ("topic_prefix",)

    def __init__(
        self,
        connection: KafkaConnection | str,
        *,
        topic_prefix: str = "switchgear.",
        background: Background | None = None,
    ) -> None:
        arguments.beginning("topic_prefix", topic_prefix)
        self._connection = arguments.connection("connection", connection)
        self._topic = TopicNames(prefix=topic_prefix).circuits
        self._background = background or Background("switchgear-follower")
        self._background.add("follower", self._run)
        call_in_child(self._reset_in_child)
        self.table = CircuitTable()
        self.broker_time = BrokerTime()
        self.loaded = False
        self._read_here = False
        """Whether this process loaded the circuits. A forked child has those of its parent, which may be old."""
        self.listeners: list[Callable[[CircuitView], None]] = []
        self._consumer: Any = None
        self._answered = LastAnswer()
        self._lag = 0
        self._next_lag = 0.0
        self._last_error: str | None = None
        self._throttle = Throttle(_REPORT_EVERY_S)

    def start(self) -> None:
        """Start the background thread, and return at once."""
        self._background.loop()

    def wait_loaded(self, timeout: float) -> bool:
        """Block until this process has loaded the circuits, at most ``timeout`` seconds. Don't call it in an event loop."""
        deadline = time.monotonic() + timeout
        while self._must_wait(deadline):
            time.sleep(_LOOK_S)
        return self.loaded and self._read_here

    async def until_loaded(self, timeout: float) -> bool:  # noqa: ASYNC109 - the same signature as wait_loaded
        """Do the same as :meth:`wait_loaded`, without blocking the event loop."""
        deadline, pause = time.monotonic() + timeout, _LOOK_S
        while self._must_wait(deadline):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_S)
        return self.loaded and self._read_here

    def close(self, timeout: float = 5.0) -> bool:
        """End the background thread, which may be shared. Return whether it ended in time."""
        return self._background.close(timeout)

    def age_s(self) -> float | None:
        """Return the seconds since the broker last answered a fetch of every partition, or None before the first answer."""
        return self._answered.age_s()

    def status(self) -> FollowerStatus:
        """Return the status as of now."""
        age_s = self.age_s()
        return FollowerStatus(
            loaded=self.loaded,
            connected=self._consumer is not None,
            circuits=len(self.table.views),
            lag=self._lag if self.loaded else None,
            age_s=age_s,
            malformed=self.table.malformed,
            last_error=self._last_error,
            stale=age_s is None or age_s >= STALE_AFTER_S,
        )

    def _must_wait(self, deadline: float) -> bool:
        if self._background.closed or (self.loaded and self._read_here) or time.monotonic() >= deadline:
            return False
        with contextlib.suppress(NotStartedError):  # there may be a thread before the time is over
            self.start()
        return True

    async def _run(self) -> None:
        pause = _FIRST_PAUSE_S
        created_again = False
        while True:
            try:
                await self._follow(self.table.fresh() if created_again else self.table)
            except _TopicChangedError:
                log.warning("the topic %s was created again or repartitioned; the circuits are read again", self._topic)
                created_again = True
                continue
            except Exception as error:  # noqa: BLE001 - whatever the error, the follower tries again
                missing = self._connection.missing_permission(error, "Read", self._topic)
                message = f"{type(error).__name__}: {error}" if missing is None else str(missing)
                age_s = self.age_s()
                if age_s is not None and age_s < _LONGEST_PAUSE_S:
                    pause = _FIRST_PAUSE_S  # the connection worked until now
                if message != self._last_error:
                    log.warning(
                        "circuits at %s are not readable: %s; trying again", self._connection.bootstrap_servers, message
                    )
                self._last_error = message
            stop_if_cancelled()
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads reconnects
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _follow(self, table: CircuitTable) -> None:
        """Follow the topic until the connection fails. A ``table`` that is not ``self.table`` replaces it once it is loaded."""
        with importing:
            from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - costs 100 ms that an import of switchgear must not

            from switchgear_schemas.unreadable import guard  # noqa: PLC0415 - imports aiokafka

        consumer = AIOKafkaConsumer(
            self._topic,
            **self._connection.options(),
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=15_000,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        try:
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                await consumer.start()
                guard(consumer)
                ends: dict[Any, int] = await consumer.end_offsets(consumer.assignment())
            self._consumer = consumer
            self._last_error = None
            offsets: dict[int, int] = {}
            loading = True
            while True:
                self._take(await consumer.getmany(timeout_ms=_POLL_MS), table, offsets)
                if not consumer.assignment():  # the topic is gone; aiokafka looks again only after metadata_max_age_ms
                    raise _TopicChangedError
                await self._observe(consumer)
                if loading and await self._reached(consumer, ends):
                    loading = False
                    if table is not self.table:
                        self.table.replace(table)
                        table = self.table
                    self.loaded = self._read_here = True
                    log.info("%d circuits loaded from %s", len(table.views), self._topic)
        finally:
            self._consumer = None
            await clean_up(consumer.stop(), _STOP_LIMIT_S, "closing a consumer")

    def _take(self, batches: dict[Any, list[Any]], table: CircuitTable, offsets: dict[int, int]) -> None:
        age_s = self.age_s()  # a record of a backlog says nothing about the clock
        fresh = self.loaded and age_s is not None and age_s < FRESH_S
        malformed = table.malformed
        for partition, records in batches.items():
            if records and records[0].offset <= offsets.get(partition.partition, -1):
                raise _TopicChangedError
            for record in records:
                offsets[partition.partition] = record.offset
                why = unreadable(record)
                if why is not None:
                    table.refuse(why)
                    continue
                if fresh:
                    self.broker_time.heard(record.timestamp)
                view = table.apply(record.key, record.value)
                if view is not None:
                    for listener in self.listeners:
                        listener(view)
        skipped = table.malformed - malformed
        left_out = self._throttle.admit("malformed", skipped) if skipped else None
        if left_out is not None:
            log.warning(
                "%d records of %s are skipped, the last one: %s", left_out + skipped, self._topic, table.last_malformed
            )

    async def _observe(self, consumer: Any) -> None:
        """Note when the broker last answered for every partition. Once a second, count the records not yet read."""
        polled = {partition: consumer.last_poll_timestamp(partition) for partition in consumer.assignment()}
        if self._answered.note(polled) and time.monotonic() >= self._next_lag:
            self._next_lag = time.monotonic() + _LAG_EVERY_S
            self._lag = 0
            for partition in consumer.assignment():
                self._lag += max(0, consumer.highwater(partition) - await consumer.position(partition))

    @staticmethod
    async def _reached(consumer: Any, ends: dict[Any, int]) -> bool:
        for partition, end in ends.items():
            if end and await consumer.position(partition) < end:
                return False
        return True

    def _reset_in_child(self) -> None:
        """Forget the parent's connection. The table stays as it was at the fork."""
        self._consumer = None
        self._read_here = False
        self._answered.forget()
