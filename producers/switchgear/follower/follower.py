"""Read the circuits topic to its end, then follow it.

The consumer reads all partitions and has no group, so every process has the whole table. If the broker is down, or the topic doesn't
exist yet, the follower tries again, and the table keeps what it has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

from switchgear import arguments
from switchgear.arguments import FromEnv
from switchgear.follower.base import Follower
from switchgear.follower.status import LastAnswer
from switchgear.follower.table import CircuitRecord, CircuitTable, RecordListener
from switchgear.runtime import kafka_log
from switchgear.runtime.background_thread import Background, clean_up, stop_if_cancelled
from switchgear.runtime.backoff import Backoff
from switchgear.runtime.fork import importing
from switchgear.runtime.throttled_log import Throttle
from switchgear_schemas.connection import METADATA_MAX_AGE_MS, KafkaConnection
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.records import unreadable
from switchgear_schemas.topics import TopicNames

log: Final = logging.getLogger("switchgear.follower")

_CONNECT_LIMIT_S: Final = 20.0
_REPORT_EVERY_S: Final = 5.0
_POLL_MS: Final = 500
FETCH_WAIT_S: Final = 10.0
"""The broker answers at once when there is a record, so a long wait delays none. It leaves 5 s before the state counts as stale."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_STOP_LIMIT_S: Final = 2.0
_LAG_EVERY_S: Final = 1.0


class _TopicChangedError(Exception):
    """The topic was deleted, and perhaps created again with versions from the start, or it has more partitions now."""


class CircuitFollower(Follower, FromEnv):
    """Keeps the table of circuits current in the background.

    Attributes:
        table: The circuits.
        loaded: Whether the topic was read once, to the end that it had at the start.
        broker_time: The broker's clock.
        listeners: Called with every changed view, in the background thread.
        record_listeners: Get the bytes of every change, in the background thread. Add yours before the thread starts.

    Args:
        connection: The brokers, or their addresses.
        topic_prefix: Prefix of the topics' names.
        background: The thread to run in; by default one of its own.
        fetch_wait_s: How long the broker may keep a fetch waiting if there is no new record, in seconds.
    """

    _settings = ("topic_prefix",)

    def __init__(
        self,
        connection: KafkaConnection | str,
        *,
        topic_prefix: str = "switchgear.",
        background: Background | None = None,
        fetch_wait_s: float = FETCH_WAIT_S,
    ) -> None:
        arguments.beginning("topic_prefix", topic_prefix)
        if not 0 < fetch_wait_s <= FETCH_WAIT_S:
            raise SwitchgearError(
                f"fetch_wait_s is {fetch_wait_s}.", hint=f"Pass more than 0 and at most {FETCH_WAIT_S:g} seconds."
            )
        self._fetch_wait_s = fetch_wait_s
        self._connection = arguments.connection("connection", connection)
        self._topic = TopicNames(prefix=topic_prefix).circuits
        super().__init__(background or Background("switchgear-follower"))
        self.record_listeners: list[RecordListener] = []
        self._consumer: Any = None
        self._answered = LastAnswer()
        self._next_lag = 0.0
        self._throttle = Throttle(_REPORT_EVERY_S)

    def age_s(self) -> float | None:
        """Return the seconds since the broker last answered a fetch of every partition, or None before the first answer."""
        return self._answered.age_s()

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the broker."""
        return self._consumer is not None

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, spread=(0.5, 1.5))
        created_again = False
        while True:
            try:
                await self._follow(CircuitTable() if created_again else self.table)
            except _TopicChangedError:
                log.warning("the topic %s was created again or repartitioned; the circuits are read again", self._topic)
                created_again = True
                continue
            except Exception as error:  # noqa: BLE001 - whatever the error, the follower tries again
                missing = self._connection.missing_permission(error, "Read", self._topic)
                message = f"{type(error).__name__}: {error}" if missing is None else str(missing)
                age_s = self.age_s()
                if age_s is not None and age_s < _LONGEST_PAUSE_S:
                    backoff.reset()  # the connection worked until now
                if message != self._last_error:
                    log.warning(
                        "circuits at %s are not readable: %s; trying again", self._connection.bootstrap_servers, message
                    )
                self._last_error = message
            stop_if_cancelled()
            await asyncio.sleep(backoff.next_s())

    async def _follow(self, table: CircuitTable) -> None:
        """Follow the topic until the connection fails. A ``table`` that is not ``self.table`` replaces it once it is loaded."""
        with importing:
            from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - costs 100 ms that an import of switchgear must not

            from switchgear.follower.long_fetch import LongFetch  # noqa: PLC0415 - imports aiokafka
            from switchgear_schemas.unreadable import guard  # noqa: PLC0415 - imports aiokafka

        kafka_log.install(self._connection.bootstrap_servers)
        consumer = AIOKafkaConsumer(
            self._topic,
            **self._connection.options(),
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=int(1000 * self._fetch_wait_s),
            request_timeout_ms=15_000,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        fetches = LongFetch(self._fetch_wait_s)
        if table is not self.table:
            for listener in self.record_listeners:
                listener.restarted()
        try:
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                await consumer.start()
                kafka_log.answered()
                guard(consumer)
                fetches.install(consumer)
                ends: dict[Any, int] = await consumer.end_offsets(consumer.assignment())
            self._consumer = consumer
            self._last_error = None
            offsets: dict[int, int] = {}
            loading = True
            while True:
                records = await consumer.getmany(timeout_ms=_POLL_MS)
                kafka_log.look(consumer)
                self._take(records, table, offsets, prompt=not loading and fetches.prompt)
                if not consumer.assignment():  # the topic is gone; aiokafka looks again only after metadata_max_age_ms
                    raise _TopicChangedError
                await self._observe(consumer)
                if loading and await self._reached(consumer, ends):
                    loading = False
                    if table is not self.table:
                        self.table.replace(table)
                        table = self.table
                    self.loaded = self._read_here = True
                    for listener in self.record_listeners:
                        listener.loaded()
                    log.info("%d circuits loaded from %s", len(table.views), self._topic)
        finally:
            self._consumer = None
            await clean_up(consumer.stop(), _STOP_LIMIT_S, "closing a consumer")

    def _take(
        self, batches: dict[Any, list[Any]], table: CircuitTable, offsets: dict[int, int], *, prompt: bool
    ) -> None:
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
                if prompt:  # a record of a backlog says nothing about the clock
                    self.broker_time.heard(record.timestamp)
                self._apply(record, table)
        skipped = table.malformed - malformed
        left_out = self._throttle.admit("malformed", skipped) if skipped else None
        if left_out is not None:
            log.warning(
                "%d records of %s are skipped, the last one: %s", left_out + skipped, self._topic, table.last_malformed
            )

    def _apply(self, record: CircuitRecord, table: CircuitTable) -> None:
        view = table.apply(record.key, record.value)
        if view is not None:
            for listener in self.listeners:
                listener(view)
        if view is not None or record.value is None:
            for each in self.record_listeners:
                each.changed(record)

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
