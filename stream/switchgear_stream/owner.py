"""What a worker does with batches, and when partitions are assigned or revoked.

A group of batches is processed in this order: fold, rows to the changelog, then circuit records, dead letters and copies, then the
offset. Each step waits until the broker acknowledges. After a crash the batches are folded again, and the fence skips what was written.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final, cast

import structlog
from aiokafka.errors import KafkaError
from faust.types import TP, EventT

from switchgear.fleet import Changes, FleetFold
from switchgear.fleet.rows import PolicyOverrides, is_circuit, placement_key
from switchgear.runtime.throttled_log import Throttle
from switchgear_schemas import DeadLetter, SwitchgearError
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.settings import Settings
from switchgear_stream.app import WorkerApp
from switchgear_stream.batching import BatchAction, OffsetSequence
from switchgear_stream.durable_table import DurableTable
from switchgear_stream.folding import Work, fold_all
from switchgear_stream.intake import Consumer, Records
from switchgear_stream.metrics import WorkerMetrics
from switchgear_stream.publisher import Publisher, by_partition
from switchgear_stream.resent import ResentFence
from switchgear_stream.takeover import Found, TakeOver
from switchgear_stream.watchdog import Watchdog

log = structlog.get_logger()
MAX_LOGGED: Final = 100
"""Circuit records of one group that are logged. A take-over may publish thousands."""
LETTERS_EVERY_S: Final = 5.0
"""Dead letters are logged once in this time, with their number."""
LOST_BROKER: Final = "Kafka did not acknowledge a batch in time; it will be folded again after a restart."


class Owner:
    """Folds the batches of the partitions that this worker owns, one group at a time."""

    def __init__(
        self,
        *,
        settings: Settings,
        app: WorkerApp,
        table: DurableTable,
        fold: FleetFold,
        publisher: Publisher,
        watchdog: Watchdog,
        metrics: WorkerMetrics,
    ) -> None:
        self._settings = settings
        self._app = app
        self._table = table
        self._fold = fold
        self._publisher = publisher
        self._watchdog = watchdog
        self._metrics = metrics
        self._busy = asyncio.Lock()
        """Held while a group is processed, and while partitions are assigned or revoked."""
        self._take_over = TakeOver(settings, publisher, table)
        self._resent = ResentFence(settings, metrics)
        self._letter_throttle = Throttle(LETTERS_EVERY_S)
        self.ready = False
        self.partitions: frozenset[int] = frozenset()
        self.offsets = OffsetSequence()
        self._starts: dict[TP, int] = {}
        self._states: dict[str, str] = {}
        self.progressed_at = time.monotonic()
        table.on_recovered = self.on_recovered
        metrics.circuit_states.listed = self.circuits

    async def batch(self, *events: EventT[Any]) -> None:
        """Fold a group of batches, at most one per partition, and acknowledge them. A failure ends the process; nothing is raised."""
        async with self._busy:
            self._watchdog.check_awake()
            try:
                await self._process(events)
            except (TimeoutError, KafkaError) as error:
                await self._watchdog.die(f"{LOST_BROKER} ({type(error).__name__})", error)
            except Exception as error:  # noqa: BLE001 - Faust would acknowledge the batch and go on
                await self._watchdog.die(f"A batch could not be folded: {error!r}.", error)

    async def _process(self, events: Collection[EventT[Any]]) -> None:
        # A batch from before a rebalance, or of a worker that failed, is left to the new owner.
        batches = [event for event in events if self._is_current(event) and await self._follows(event)]
        if not batches:
            return
        started = time.monotonic()
        await self._fold_and_write(batches)
        for event in batches:
            event.ack()
            self.offsets.done(event.message.tp, event.message.offset)
        self.progressed_at = time.monotonic()
        self._metrics.batch_seconds.observe(self.progressed_at - started)
        self._metrics.batch_records.observe(sum(len(cast("Records", event.value)) for event in batches))

    def _is_current(self, event: EventT[Any]) -> bool:
        app = self._app
        return (
            app.flow_control.is_active()
            and event.message.generation_id == app.consumer_generation_id
            and not self._watchdog.failed.done()
        )

    async def _follows(self, event: EventT[Any]) -> bool:
        """Return whether the batch follows the last one of its partition. If records are missing, seek back to them."""
        tp = event.message.tp
        consumer = cast("Consumer", self._app.consumer)
        committed = consumer.committed_offset(tp)
        self.offsets.start(tp, self._starts.get(tp, 0) if committed is None else committed)
        first = cast("Records", event.value)[0].offset
        action = self.offsets.action(tp, first)
        if action is BatchAction.REWIND:
            expected = self.offsets.position(tp)
            assert expected is not None
            log.warning("rewind", topic=tp.topic, partition=tp.partition, expected=expected, got=first)
            self._metrics.rewinds.inc()
            await consumer.rewind(tp, expected)
        return action is BatchAction.FOLD

    async def _fold_and_write(self, batches: Collection[EventT[Any]]) -> None:
        work: list[Work] = []
        for event in batches:
            records = cast("Records", event.value)
            if event.message.topic == self._settings.topics.commands:
                work.append((self._fold.commands, records))
            else:
                work.append((self._fold.executions, await self._resent.without_copies(records)))
        changes, unforeseen = fold_all(self._fold, work, self._store)
        self._metrics.unforeseen.inc(unforeseen)
        await self._publish(changes)

    def _store(self, changes: Changes) -> None:
        """Put the rows into the table in memory."""
        for partition, rows in self._by_partition(changes).items():
            for key, value in rows:
                self._table.write(partition, key, value)

    def _by_partition(self, changes: Changes) -> dict[int, list[tuple[bytes, bytes | None]]]:
        return by_partition(changes, self._settings.topic_partitions, self._settings.family_pattern)

    async def _publish(self, changes: Changes) -> None:
        """Write the rows first, then the circuit records, dead letters and copies. Wait for the broker after each step."""
        rows = self._by_partition(changes)
        await asyncio.gather(*(self._write(partition, found) for partition, found in rows.items()))
        if changes.circuits or changes.dead or changes.rekeyed:
            self._report_lost(await self._publisher.outputs(changes))
        self._count(changes)
        for published in [each for each in changes.circuits if not each.only_pace][:MAX_LOGGED]:
            log.info("circuit", circuit=published.circuit_id, state=published.state, version=published.version)

    async def _write(self, partition: int, rows: list[tuple[bytes, bytes | None]]) -> None:
        self._table.wrote(partition, await self._publisher.rows(partition, rows), len(rows))

    async def on_revoked(self) -> None:
        """Finish the group at work, before partitions are revoked. After that nothing of this worker is in flight."""
        self.ready = False
        async with self._busy:
            self._forget()
            self._states.clear()
            self.partitions = frozenset()

    async def on_assigned(self, assigned: Collection[TP]) -> None:
        """Be ready at once if no partition is assigned: there is nothing to recover, and the worker is a spare."""
        if not assigned:
            self.ready = True
            log.info("ready", partitions=[], standby=True)

    def _forget(self) -> None:
        self._fold.forget()
        self.offsets.forget()
        self._resent.forget()

    async def on_recovered(self, partitions: set[int]) -> None:
        """Restore the table of the assigned ``partitions``, and bring the circuits topic in line with it, before the first event."""
        async with self._busy:
            generation = self._app.consumer_generation_id
            try:
                self._forget()
                self._resent.keep(partitions)
                await self._take_over.rows(partitions)
                known = await self._take_over.read(partitions)
                self._starts = known.starts
                if generation != self._app.consumer_generation_id:
                    return  # there was another assignment, and its recovery does all this again
                changes = await self._reconcile(known)
                await self._take_over.finish()
            except (TimeoutError, KafkaError, SwitchgearError) as error:
                await self._watchdog.die(f"The circuits could not be taken over: {error}", error)
            except Exception as error:  # noqa: BLE001 - Faust drops what this hook raises
                await self._watchdog.die(f"The circuits could not be taken over: {error!r}.", error)
            self.partitions = frozenset(partitions)
            self.progressed_at = time.monotonic()
            self.ready = True
            self._metrics.rebalances.inc()
            log.info(
                "ready",
                partitions=sorted(partitions),
                circuits=len(self._table.rows),
                republished=len(changes.circuits),
                stale_rows=self._table.stale_rows,
            )

    async def publish_again(self) -> None:
        """Publish the circuits that the circuits topic no longer has, byte for byte. A take-over that is under way does the same."""
        async with self._busy:
            if not self.ready or self._watchdog.failed.done():
                return
            try:
                self._fold.forget()
                changes = await self._reconcile(await self._take_over.read(self.partitions))
            except Exception as error:  # noqa: BLE001 - a restart takes over, and publishes what is missing
                await self._watchdog.die(f"The circuits could not be published again: {error!r}.", error)
            log.info("published_again", circuits=len(changes.circuits))

    async def _reconcile(self, known: Found) -> Changes:
        """Bring the circuits topic in line with the table."""
        self._states = self._fold.take_over(known.fleet)
        changes = self._fold.take()
        self._store(changes)
        self._report_refused(changes)
        await self._publish(changes)
        return changes

    def _report_refused(self, changes: Changes) -> None:
        """Count the records of the state topics that no worker wrote, log the first per topic, and add them to the dead letters."""
        refused = self._take_over.take_refused()
        changes.dead += refused.letters
        for topic, count in refused.counts.items():
            self._metrics.unreadable.labels(topic).inc(count)
            first = next((letter for letter in refused.letters if letter.topic == topic), None)
            log.error(
                "state_records_refused",
                topic=topic,
                count=count,
                first=None if first is None else first.key.decode(),
                reason=None if first is None else first.reason,
            )

    def _report_lost(self, letters: list[DeadLetter]) -> None:
        if letters:
            self._metrics.lost_letters.inc(len(letters))
            log.error(
                "dead_letters_refused",
                topic=self._settings.topics.dead,
                count=len(letters),
                first=letters[0].key.decode(),
                reason=letters[0].reason,
                hint="Raise max.message.bytes of the topic: `switchgear topics ensure` shows the difference.",
            )

    def states(self) -> dict[str, int]:
        """Return the number of circuits that this worker owns, by state."""
        found = Counter(self._states.values())
        rows = self._table.rows
        others = sum(
            key in rows
            for partition in self.partitions
            for key in (PolicyOverrides(partition=partition).key, placement_key(partition))
        )
        found["closed"] = len(rows) - others - len(self._states)
        return dict(found)

    def circuits(self) -> Iterator[tuple[str, str]]:
        """Yield the id and the state of each circuit of a tool or a family, closed ones last.

        Circuits of users and sessions are left out: their names come and go without end, and may identify a person.
        """
        states = self._states
        yield from ((circuit, state) for circuit, state in states.items() if _is_shared(circuit))
        for key in self._table.rows:
            if is_circuit(key) and (circuit := key.decode()) not in states and _is_shared(circuit):
                yield circuit, "closed"

    def _count(self, changes: Changes) -> None:
        metrics = self._metrics
        metrics.executions.inc(changes.folded)
        metrics.commands.inc(changes.commands)
        metrics.duplicates.inc(changes.duplicates)
        metrics.late.inc(changes.late)
        metrics.leases.inc(changes.leases)
        metrics.retired.inc(changes.retired)
        metrics.rekeyed.inc(len(changes.rekeyed))
        for published in changes.circuits:
            metrics.records.labels(published.state).inc()
            if published.state == "closed":
                self._states.pop(published.circuit_id, None)
            else:
                self._states[published.circuit_id] = published.state
        if changes.dead:
            metrics.dead_letters.inc(len(changes.dead))
            self._log_letters(changes.dead)

    def _log_letters(self, letters: list[DeadLetter]) -> None:
        left_out = self._letter_throttle.admit("dead_letters", len(letters))
        if left_out is not None:
            last = letters[-1]
            count = left_out + len(letters)
            log.warning("dead_letters", count=count, last=last.key.decode(), field=last.field, reason=last.reason)


def _is_shared(circuit: str) -> bool:
    return read_circuit_id(circuit).scope in ("tool", "family")
