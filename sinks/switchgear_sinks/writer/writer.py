"""A member of the sinks' consumer group that writes from Kafka into ClickHouse."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, UnknownMemberIdError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from switchgear.runtime import kafka_log
from switchgear_schemas.connection import METADATA_MAX_AGE_MS, KafkaConnection
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from switchgear_schemas.execution import MAX_EVENT_BYTES
from switchgear_schemas.topics import TopicNames
from switchgear_schemas.unreadable import BatchGuard
from switchgear_sinks.clickhouse_errors import InsertFailureKind, classify_insert_failure
from switchgear_sinks.store import Store
from switchgear_sinks.writer.assignment import Assignment, Replacements
from switchgear_sinks.writer.batches import Record
from switchgear_sinks.writer.dead_letters import DeadLetterProducer
from switchgear_sinks.writer.history import HINT, StoreHistory
from switchgear_sinks.writer.inserter import Inserter
from switchgear_sinks.writer.intents import Committed
from switchgear_sinks.writer.offset_commits import CommittedOffsets
from switchgear_sinks.writer.pace import Pace
from switchgear_sinks.writer.replay import RangeReader, position_of
from switchgear_sinks.writer.rows import CircuitRows, ExecutionRows
from switchgear_sinks.writer.settings import WriterLimits, WriterMetrics

log = structlog.get_logger()

_POLL_MS: Final = 100
_IDLE_POLL_MS: Final = 500
"""While nothing waits to be inserted. A record ends the poll."""
_POLL_ROWS: Final = 10_000
_UPDATE_EVERY_S: Final = 1.0
_BEGIN_LIMIT_S: Final = 5.0
_BEGINS_LIMIT_S: Final = 20.0
_START_LIMIT_S: Final = 30.0
_START_WAIT_S: Final = 1.0
_FETCHING: Final = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "max_partition_fetch_bytes": 2 * MAX_EVENT_BYTES,
    "fetch_max_bytes": 16 * MAX_EVENT_BYTES,
}
_GATHERING: Final = {"fetch_min_bytes": 65_536, "fetch_max_wait_ms": 1_000}
"""The broker gathers what it sends. An answer for each record would take the process several times as long as the records do."""
_SESSION_MS: Final = 10_000
_REBALANCE_MS: Final = 30_000


class Writer(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Reads executions and circuits, inserts them and commits. :meth:`run` returns after :meth:`stop`."""

    def __init__(
        self,
        store: Store,
        connection: KafkaConnection,
        topics: TopicNames,
        metrics: WriterMetrics,
        *,
        limits: WriterLimits | None = None,
        instance_id: str | None = None,
        rewind: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare without connecting.

        Args:
            store: Where to write.
            connection: The brokers.
            topics: Names of the topics and of the group.
            metrics: The metrics to count in.
            limits: Batch sizes, memory and waiting times.
            instance_id: Static membership. A process that restarts under the same name has its partitions back at once,
                not only after the end of its session. Must be unique among the sinks.
            rewind: Read again what the store lacks, from the first offset that Kafka still has.
            clock: Monotonic seconds.
        """
        self.limits = WriterLimits() if limits is None else limits
        self._connection = connection
        self._topics = topics
        self._metrics = metrics
        self._instance_id = instance_id
        self._clock = clock
        self._dead = DeadLetterProducer(connection, topics.dead, metrics)
        self._committed = CommittedOffsets(connection, topics.sink_group)
        self._read_ranges = RangeReader(connection, self._committed, _FETCHING, clock)
        self._pace = Pace(self.limits.batch_age_s, self.limits.longest_age_s)
        self._history = StoreHistory(store, topics.sink_group)
        self._history_begins = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._rewind = rewind
        self._rewinds_later = False
        self._sought: dict[TopicPartition, int] = {}
        """Partitions that were set back since the last poll began."""
        self._inserters = {
            topics.executions: Inserter(store, ExecutionRows(), self._dead, metrics, self.limits, self._know_history),
            topics.circuits: Inserter(store, CircuitRows(), self._dead, metrics, self.limits, self._know_history),
        }
        for topic in self._inserters:  # a series that begins with the first letter shows no increase by it
            metrics.dead_letters.labels(topic)
            metrics.missing.labels(topic)
        self._consumer: Any = None
        self._guard = BatchGuard(poll_bytes=self.limits.memory_bytes)
        self.assignment: Assignment | None = None
        """The partitions of this process; None during a rebalance."""
        self._early: dict[TopicPartition, list[Record]] = {}
        self._failure: BaseException | None = None
        self._stopping = asyncio.Event()
        self.paused: set[TopicPartition] = set()
        """Partitions that are not fetched now, because they hold enough."""
        self._updated_at = 0.0
        self._gaps: dict[TopicPartition, range] = {}
        self._replacements = Replacements(clock)

    @property
    def ready(self) -> bool:
        """Partitions are assigned. There may be none if there are more sinks than partitions."""
        return self.assignment is not None and self._failure is None

    def stop(self) -> None:
        """Let :meth:`run` finish its batches and return."""
        self._stopping.set()

    async def run(self) -> None:
        """Write until stopped.

        Raises:
            BrokerUnavailableError: No broker answered within 30 s of the start.
            SwitchgearError: ClickHouse or Kafka refused for a reason that does not pass by itself.
        """
        try:
            await self._connect()
            while not self._stopping.is_set():
                self._raise_failure()
                self._balance_memory()
                for partition, records in (await self._poll()).items():
                    self._feed(partition, records)
                self._rewind_later()
                await self._update_positions()
        finally:
            await self._disconnect()
        self._raise_failure()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Finish or cancel the running batches. After this another process may own the partitions."""
        del revoked  # the protocol is the eager one: all of them
        self._early.clear()
        self.paused.clear()
        assignment, self.assignment = self.assignment, None
        if assignment is not None:
            await assignment.end(self.limits.finish_s)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Read what former owners left unfinished, and start to write."""
        try:
            committed = await self._with_history(await self._committed.read(assigned))
        except (CommitFailedError, IllegalStateError) as error:
            log.info("the partitions moved on at once", why=str(error))
            return
        except Exception as error:  # noqa: BLE001 - aiokafka would only log it; run() raises it
            self._fail(error)
            return
        self._metrics.lag.clear()
        self.assignment = Assignment(
            assigned,
            self._inserters,
            committed,
            self._commit,
            self._read_ranges,
            self.limits,
            self._pace,
            self._clock,
            self._fail,
        )
        to_replay = self.assignment.unfinished
        self._metrics.replays.inc(to_replay)
        log.info("partitions assigned", count=len(assigned), to_replay=to_replay)
        for partition, records in self._early.items():
            self._feed(partition, records)
        self._early.clear()

    async def _with_history(self, committed: dict[TopicPartition, Committed]) -> dict[TopicPartition, Committed]:
        """Look what the store lacks, and read it again if asked to. Return the commits as they are then.

        Only a rewind waits for the store. Otherwise the partitions are read at once, and the first insert waits for the answer.
        """
        if self._rewind:
            await self._know_history()
            return await self._set_back(committed)
        if not self._history.known:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            return committed
        try:
            return await self._set_back(committed)
        except Exception as error:
            if classify_insert_failure(error).kind is not InsertFailureKind.RETRY:
                raise
            return committed  # what is noted now is noted at the next assignment, too

    async def _look(self) -> None:
        """Look what the store lacks before an event comes. If that fails, the first insert looks again."""
        try:
            await self._know_history()
        except Exception as error:  # noqa: BLE001 - the first insert says it, or stops
            log.warning("the store doesn't say now what it lacks", reason=str(error) or type(error).__name__)

    async def _know_history(self) -> bool:
        async with self._history_begins:
            if not self._history.known:
                await self._begin_history()
        return True

    async def _begin_history(self) -> None:
        """Look whether the store lacks what the group has read. Say so, once per start."""
        numbers = {topic: self._consumer.partitions_for_topic(topic) or () for topic in self._inserters}
        everywhere = [TopicPartition(topic, number) for topic, found in numbers.items() for number in found]
        async with asyncio.timeout(_BEGINS_LIMIT_S):
            begins = await self._consumer.beginning_offsets(everywhere)
        await self._history.begin(await self._committed.read(everywhere), begins)
        lacking = self._show_lacking()
        if lacking and not self._rewind:
            log.error(
                "the store lacks events that sinks have read before it was there", offsets=dict(lacking), hint=HINT
            )

    def _show_lacking(self) -> Counter[str]:
        lacking = self._history.readable()
        for topic in self._inserters:
            self._metrics.lacking.labels(topic).set(lacking[topic])
        return lacking

    async def _set_back(self, committed: dict[TopicPartition, Committed]) -> dict[TopicPartition, Committed]:
        """If asked to, commit the first offset that Kafka has where the store lacks what follows. Return the commits as they are now.

        If a batch is pending, it comes first, because its range must stay as it was named. After it, the group is joined again.
        """
        await self._history.complete(each for each, at in committed.items() if at.stored)  # set back before a crash
        if self._rewind and any(map(self._history.lacks_before, committed)):
            await self._history.read()  # another sink may have had the partition
        self._show_lacking()
        lacking = {each: at for each, at in committed.items() if self._history.lacks_before(each)}
        self._rewinds_later = self._rewind and any(at.pending is not None for at in lacking.values())
        if not self._rewind or not lacking or self._rewinds_later:
            return committed
        async with asyncio.timeout(_BEGINS_LIMIT_S):
            begins = await self._consumer.beginning_offsets([*lacking])
        back = {}
        for partition, at in lacking.items():
            before = self._history.lacks_before(partition)
            if begins[partition] < before <= at.offset:
                back[partition] = Committed(begins[partition], stored=range(before, at.offset))
        if back:
            await self._commit({each: OffsetAndMetadata(at.offset, at.metadata()) for each, at in back.items()})
            for partition, at in back.items():
                self._consumer.seek(partition, at.offset)
                self._sought[partition] = at.offset
                self._early.pop(partition, None)
            log.info(
                "reading again what the store lacks", offsets=sum(at.stored.start - at.offset for at in back.values())
            )
        await self._history.complete(lacking)
        self._show_lacking()
        return committed | back

    async def _connect(self) -> None:
        deadline = self._clock() + _START_LIMIT_S
        while not self._stopping.is_set():
            late = self._clock() > deadline
            try:
                await self._dead.start()
                await self._committed.start()
                missing = await self._committed.missing_topics([*self._inserters, self._topics.dead])
                if not missing:
                    self._consumer = self._make_consumer()
                    self._consumer.subscribe([*self._inserters], listener=self)
                    await self._consumer.start()
                    kafka_log.answered()
                    self._guard.install(self._consumer)
                    return
            except (KafkaError, OSError) as error:
                if late:
                    raise BrokerUnavailableError(
                        f"No Kafka broker answered at {self._connection.bootstrap_servers}.",
                        hint="Start it, or correct SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS.",
                    ) from error
                log.warning(
                    "no broker answers, trying again",
                    brokers=self._connection.bootstrap_servers,
                    reason=str(error) or type(error).__name__,
                )
            else:
                if late:
                    raise SwitchgearError(
                        f"Kafka has no topic {' and no topic '.join(missing)}.",
                        hint="Create them with `switchgear topics ensure`, or correct SWITCHGEAR_TOPIC_PREFIX.",
                    )
                log.warning("topics are missing, waiting for them", topics=missing)
            await self._disconnect()
            await asyncio.sleep(_START_WAIT_S)

    def _make_consumer(self) -> Any:
        return AIOKafkaConsumer(
            **self._connection.options(),
            group_id=self._topics.sink_group,
            group_instance_id=self._instance_id,
            **_FETCHING,
            **_GATHERING,
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),  # aiokafka's sticky one is broken
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )

    async def _commit(self, offsets: dict[Any, Any]) -> None:
        try:
            await self._consumer.commit(offsets)
        except CommitFailedError as error:
            replaced = self._instance_id is not None and isinstance(error.__cause__, UnknownMemberIdError)
            if replaced and self._replacements.count():
                self._fail(self._refused("this member is replaced again and again"))
            raise

    def _refused(self, reason: str) -> SwitchgearError:
        twin = f" Another sink may run under the name {self._instance_id}." if self._instance_id else ""
        return SwitchgearError(
            f"Kafka refuses this sink: {reason}.{twin}",
            hint="Nothing is lost. Correct the cause and start the sink again; it continues where it stopped.",
        )

    async def _poll(self) -> dict[TopicPartition, list[Record]]:
        self._guard.refill()
        self._sought.clear()
        idle = self.assignment is not None and not self.assignment.held_bytes
        try:
            found: dict[TopicPartition, list[Record]] = await self._consumer.getmany(
                timeout_ms=_IDLE_POLL_MS if idle else _POLL_MS, max_records=_POLL_ROWS
            )
        except KafkaError as error:
            raise self._refused(str(error) or type(error).__name__) from error
        kafka_log.look(self._consumer)
        await asyncio.sleep(0)  # getmany does not yield while there is more
        for partition in self._sought.keys() & found:  # read before or after it was set back: that can't be told
            del found[partition]
            if partition in self._consumer.assignment():
                self._consumer.seek(partition, self._sought[partition])
        return found

    def _feed(self, partition: TopicPartition, records: list[Record]) -> None:
        if self.assignment is None:  # fetched before the listener was called
            self._early.setdefault(partition, []).extend(records)
            return
        self._note_gap(partition, self.assignment.feed(partition, records))

    def _note_gap(self, partition: TopicPartition, gap: range) -> None:
        if gap and partition.topic == self._topics.executions:  # compaction leaves gaps in the other topic
            self._gaps.setdefault(partition, gap)

    async def _explain_gaps(self) -> None:
        """Report offsets that Kafka deleted before they were read. The ends of transactions leave gaps too, which mean nothing."""
        gaps, self._gaps = self._gaps, {}
        if not gaps:
            return
        try:
            async with asyncio.timeout(_BEGIN_LIMIT_S):
                begins = await self._consumer.beginning_offsets([*gaps])
        except (KafkaError, TimeoutError) as error:
            log.warning("gaps in the log can't be explained", reason=str(error) or type(error).__name__)
            return
        for partition, gap in gaps.items():
            missing = min(begins[partition], gap.stop) - gap.start
            if missing > 0:
                self._metrics.missing.labels(partition.topic).inc(missing)
                log.error(
                    "offsets missing: Kafka deleted them before they were read",
                    partition=partition.partition,
                    before=gap.stop,
                    count=missing,
                )

    def _balance_memory(self) -> None:
        """Pause the partitions that hold enough. If all together hold too much, pause all of them and cut batches at once."""
        if self.assignment is None:
            return
        held = self.assignment.held_bytes
        self._metrics.held.set(held)
        short = held >= self.limits.memory_bytes
        self.assignment.hurry(hurried=short)
        wanted = {partition for partition, each in self.assignment.partitions.items() if short or each.full}
        ours = self._consumer.assignment()  # a rebalance may have begun before the listener was called
        if stop := (wanted - self.paused) & ours:
            self._consumer.pause(*stop)
        if go := (self.paused - wanted) & ours:
            self._consumer.resume(*go)
        self.paused = wanted

    def _rewind_later(self) -> None:
        """Join the group again when the last pending batch is stored, so that the partitions are set back."""
        if self._rewinds_later and self.assignment is not None and not self.assignment.unfinished:
            self._rewinds_later = False
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001 - aiokafka has no public way to be assigned anew

    async def _update_positions(self) -> None:
        """Once a second, look for offsets without records and update the lag."""
        now, assignment = self._clock(), self.assignment
        if assignment is None or now - self._updated_at < _UPDATE_EVERY_S:
            return
        self._updated_at = now
        for partition in assignment.partitions:
            position = await position_of(self._consumer, partition)
            if position is not None:
                self._note_gap(partition, assignment.reached(partition, position))
        await self._explain_gaps()
        self._show_lag()

    def _show_lag(self) -> None:
        if self.assignment is None:  # a rebalance came in between
            return
        for partition, each in self.assignment.partitions.items():
            end = self._consumer.highwater(partition)
            if end is not None and each.landed is not None:
                self._metrics.lag.labels(partition.topic, str(partition.partition)).set(max(0, end - each.landed))

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _disconnect(self) -> None:
        assignment, self.assignment = self.assignment, None
        if assignment is not None:
            await assignment.end(self.limits.finish_s)
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
            self._looking = None
        if self._consumer is not None:
            await self._consumer.stop()
            self._consumer = None
        await self._committed.stop()
        await self._dead.stop()
