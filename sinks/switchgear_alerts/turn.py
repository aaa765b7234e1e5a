"""The time in which this process is the active one: it has the incidents, and sends the messages."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from aiokafka.structs import TopicPartition

from switchgear_alerts.config import AlertsFile
from switchgear_alerts.dead_letters import DeadLetterFile
from switchgear_alerts.delivery import Delivery
from switchgear_alerts.engine import Engine
from switchgear_alerts.facts import Seen, UnreadableRecordError, read_circuit
from switchgear_alerts.metrics import AlertsMetrics
from switchgear_alerts.receivers.base import Receiver
from switchgear_alerts.state_topic import StateTopic
from switchgear_schemas.enums import REFUSING
from switchgear_schemas.records import unreadable

log = structlog.get_logger()

_ADVANCE_EVERY_S: Final = 0.5
_OFFSETS_EVERY_S: Final = 5.0
_BURY_AGAIN_S: Final = 5.0


class History:
    """The records that a partition had when alerts saw it for the first time. Only the last one of each circuit counts.

    Args:
        end: The offset after the last of them.
    """

    def __init__(self, end: int) -> None:
        self.end = end
        self.open: dict[str, Seen] = {}

    def take(self, seen: Seen) -> None:
        """Take a record. Circuits that are not open are not kept."""
        if seen.facts.state in REFUSING:
            self.open[seen.facts.circuit_id] = seen
        elif seen.facts.state != "half_open":
            self.open.pop(seen.facts.circuit_id, None)


class Turn:
    """One turn. Incidents and messages are saved before they are sent, and messages are forgotten after they were delivered."""

    def __init__(
        self,
        rules: AlertsFile,
        receivers: Mapping[str, Receiver],
        state: StateTopic,
        dead: DeadLetterFile,
        metrics: AlertsMetrics,
        fleet: str = "",
    ) -> None:
        """Prepare. Call :meth:`begin` next.

        Args:
            rules: The alerts file.
            receivers: By name.
            state: The alerts topic, of which this process is the writer.
            dead: For messages that are given up.
            metrics: What is counted.
            fleet: What tells this fleet from others, for the ids of incidents.
        """
        self._state = state
        self._metrics = metrics
        self._engine = Engine(rules, time.time(), fleet)
        self._history: dict[int, History] = {}
        self._offsets: dict[int, int] = {}
        self._unsaved_offsets: dict[int, int] = {}
        self._offsets_at = self._advanced_at = self._bury_at = 0.0
        self._deliveries = {
            name: Delivery(
                name, each, rules.retry, dead, metrics, functools.partial(self._engine.firing, name), time.time
            )
            for name, each in receivers.items()
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        """Take over what is saved, and set the consumer to where it was read up to."""
        saved, offsets = await self._state.load()
        self._engine.restore(saved, time.time())
        ends = await consumer.end_offsets(partitions)
        for each in partitions:
            known = offsets.get(each.partition)
            if known is None:
                self._history[each.partition] = History(ends[each])
            consumer.seek(each, 0 if known is None else known)
        self._tasks = [
            asyncio.create_task(each.run(), name=f"deliver-{name}") for name, each in self._deliveries.items()
        ]
        self._send()
        self._metrics.active.set(1)
        log.info("active", open_incidents=self._engine.open_incidents, new_partitions=len(self._history))

    async def end(self) -> None:
        """Stop to send. What was not delivered is saved."""
        self._metrics.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def step(self, consumer: Any, fetched: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Take fetched records and the results of deliveries, save what changed, and send what is new.

        Raises:
            KafkaError: It could not be saved. Begin a new turn.
            TimeoutError: Likewise.
        """
        for task in self._tasks:
            if task.done():
                task.result()
        now, tick = time.time(), time.monotonic()
        for partition, records in fetched.items():
            for record in records:
                self._take(partition.partition, record)
            self._unsaved_offsets[partition.partition] = records[-1].offset + 1
        await self._end_histories(consumer)
        self._forget_finished()
        if fetched or tick - self._advanced_at >= _ADVANCE_EVERY_S:
            self._advanced_at = tick
            self._engine.advance(now)
        await self._bury(tick)
        await self._save(tick)
        self._send()
        self._pause(consumer)
        await self._measure(consumer)

    def _take(self, partition: int, record: Any) -> None:
        history = self._history.get(partition)
        if history is not None and record.offset >= history.end:
            self._end_history(partition, history)
        why = unreadable(record)
        if why is None and record.value is None:
            self._remove(partition, (record.key or b"").decode(errors="replace"), record.timestamp / 1000)
            return
        try:
            seen = read_circuit(record.value or b"")
        except UnreadableRecordError as error:
            self._metrics.unreadable.inc()
            log.warning("a record was skipped", partition=partition, offset=record.offset, reason=why or str(error))
            return
        history = self._history.get(partition)
        if history is not None and not self._engine.is_open(seen.facts.circuit_id):
            history.take(seen)
        else:
            self._engine.observe(seen)

    def _remove(self, partition: int, circuit_id: str, at: float) -> None:
        history = self._history.get(partition)
        if history is not None:
            history.open.pop(circuit_id, None)
        self._engine.remove(circuit_id, at)

    def _forget_finished(self) -> None:
        for name, delivery in self._deliveries.items():
            for message_id in delivery.take_finished():
                self._engine.finished(name, message_id)

    def _send(self) -> None:
        for name, box in self._engine.outbox.items():
            for message in box.values():
                self._deliveries[name].put(message)

    async def _end_histories(self, consumer: Any) -> None:
        for each in consumer.assignment():
            history = self._history.get(each.partition)
            if history is not None and await consumer.position(each) >= history.end:
                self._end_history(each.partition, history)

    def _end_history(self, partition: int, history: History) -> None:
        """Take what was open at the end of the history. The partition's later records are changes."""
        del self._history[partition]
        self._unsaved_offsets[partition] = max(history.end, self._unsaved_offsets.get(partition, 0))
        for seen in history.open.values():
            self._engine.observe(seen)

    async def _bury(self, tick: float) -> None:
        """Write what was given up into the dead letters. What the disk doesn't take is kept and tried again."""
        if tick < self._bury_at:
            return
        for message in list(self._engine.given_up):
            if not await self._deliveries[message.receiver].bury(message, "too many changes waited for this receiver"):
                self._bury_at = tick + _BURY_AGAIN_S
                return
            self._engine.buried(message)

    def _pause(self, consumer: Any) -> None:
        """Read no further while too much waits. The records stay in Kafka."""
        if self._engine.full:
            consumer.pause(*consumer.assignment())
        elif consumer.paused():
            consumer.resume(*consumer.paused())

    async def _save(self, tick: float) -> None:
        changed = self._engine.take_unsaved()
        offsets = {each: at for each, at in self._unsaved_offsets.items() if each not in self._history}
        if not changed and not (offsets and tick - self._offsets_at >= _OFFSETS_EVERY_S):
            return
        await self._state.save(changed, offsets)
        self._offsets_at = tick
        for each in offsets:
            del self._unsaved_offsets[each]

    async def _measure(self, consumer: Any) -> None:
        metrics, engine = self._metrics, self._engine
        metrics.incidents.set(engine.open_incidents)
        metrics.waiting.set(engine.waiting)
        for name, box in engine.outbox.items():
            metrics.undelivered.labels(name).set(len(box))
        lag = 0
        for each in consumer.assignment():
            lag += max(0, (consumer.highwater(each) or 0) - await consumer.position(each))
        metrics.lag.set(lag)
