"""MemoryWorker: the stream worker without Faust and Kafka. It folds by the same code, and dies at the same places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, Literal

from switchgear.fleet import Changes, FleetFold, Known, PublishedCircuit, read_published
from switchgear.fleet.registry import Limits, Policies
from switchgear.fleet.rows import applied
from switchgear.testing.log import MemoryLog
from switchgear_schemas import Circuit
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.topics import TopicNames

CrashPoint = Literal["before_rows", "amid_rows", "after_rows", "after_outputs"]
"""Where in a batch a worker dies: before or amid the rows, before the records that come of them, or before the offset."""
LATE_AFTER_S: Final = 300.0
"""The worker's own default: an execution older than this on arrival is not counted."""


def create_topics(log: MemoryLog, names: TopicNames, partitions: int) -> None:
    """Make the topics that guards, workers and operators share."""
    for topic in (names.executions, names.commands, names.dead):
        log.create(topic, partitions)
    for topic in (names.circuits, names.changelog):
        log.create(topic, partitions, compact=True)


class MemoryWorker:
    """Owns partitions of a log: recovers their rows, folds what is new, writes rows, then records, then the offset.

    Args:
        log: holds the topics; see :func:`create_topics`.
        policies: the policy file.
        names: of the topics.
        late_after_s: see :class:`~switchgear.fleet.FleetFold`.
        limits: how many circuits there may be.
    """

    def __init__(
        self,
        log: MemoryLog,
        policies: Policies,
        *,
        names: TopicNames,
        late_after_s: float = LATE_AFTER_S,
        limits: Limits | None = None,
    ) -> None:
        self.log = log
        self.names = names
        self.partitions = log.partitions(names.executions)
        self.owned: tuple[int, ...] = ()
        self.rows: dict[bytes, bytes] = {}
        self._held: dict[tuple[str, int], int] = {}
        self.leases = 0
        """Probe leases granted, in what was written."""
        self.fold = FleetFold(
            self.rows, policies, partitions=self.partitions, late_after_s=late_after_s, limits=limits or Limits()
        )

    def assign(self, partitions: Iterable[int]) -> None:
        """Own exactly these partitions from now on: recover their rows and bring the circuits topic in line with them."""
        self.owned = tuple(sorted(partitions))
        self.rows.clear()
        self.fold.forget()
        for number in self.owned:
            self._recover(number)
        self.fold.take_over(self._known())
        self._write(self.fold.take())
        self.fold.settle()

    def step(
        self, partitions: Iterable[int] | None = None, *, crash: CrashPoint | None = None, most: int | None = None
    ) -> int:
        """Fold everything that is new in the owned partitions, a batch a partition and topic.

        Args:
            partitions: look at these alone; all that are owned unless given.
            crash: die there in the first batch that holds anything; the worker owns nothing afterwards.
            most: largest batch.

        Returns:
            Records folded and acknowledged.
        """
        done = 0
        numbers = self.owned if partitions is None else sorted(set(partitions) & set(self.owned))
        for topic, fold in ((self.names.commands, self.fold.commands), (self.names.executions, self.fold.executions)):
            for number in numbers:
                start = self.log.committed.get((topic, number), 0)
                if start >= self.log.end(topic, number):
                    continue
                records = self.log.read(topic, number, start, most)
                fold(records)
                changes = self.fold.take()
                if crash is not None:
                    self.die(changes, crash)
                    return done
                self._write(changes)
                self.fold.settle()
                self.log.committed[topic, number] = records[-1].offset + 1
                done += len(records)
        return done

    def hold(self) -> Changes:
        """Fold everything that is new and write nothing yet: what a worker has in hand in the middle of a batch.

        Then :meth:`finish`, :meth:`die` or, after it was replaced, :meth:`write_late`.
        """
        self._held.clear()
        for topic, fold in ((self.names.commands, self.fold.commands), (self.names.executions, self.fold.executions)):
            for number in self.owned:
                records = self.log.read(topic, number, self.log.committed.get((topic, number), 0))
                if records:
                    fold(records)
                    self._held[topic, number] = records[-1].offset + 1
        return self.fold.take()

    def finish(self, changes: Changes) -> None:
        """Write what is held, and acknowledge it."""
        self._write(changes)
        self.fold.settle()
        self.log.committed.update(self._held)

    def die(self, changes: Changes, crash: CrashPoint) -> None:
        """Write as much of what is held as a worker does that dies there; it owns nothing afterwards."""
        if crash == "amid_rows":  # a beginning of them, in their order
            changes.rows = dict(list(changes.rows.items())[: len(changes.rows) // 2])
        if crash != "before_rows":
            self._write(changes, outputs=crash == "after_outputs")
        self.revoke()

    def write_late(self, changes: Changes) -> None:
        """What a paused worker does when it wakes and finds itself replaced: its records still go out, no offset does."""
        self._write(changes)
        self.revoke()

    def revoke(self) -> None:
        """Own nothing."""
        self.owned = ()
        self.rows.clear()
        self.fold.forget()

    def _recover(self, number: int) -> None:
        """Of each row the one that has come furthest, whatever a paused former owner wrote behind it."""
        for message in self.log.read(self.names.changelog, number, 0):
            assert message.key is not None
            known = self.rows.get(message.key)
            if message.value is None:
                self.rows.pop(message.key, None)
            elif known is None or applied(message.value) >= applied(known):
                self.rows[message.key] = message.value

    def _known(self) -> Known:
        newest: dict[str, PublishedCircuit] = {}
        for number in self.owned:
            for message in self.log.read(self.names.circuits, number, 0):
                circuit = read_published(message.value)
                if circuit is None:
                    newest.pop((message.key or b"").decode(), None)
                elif circuit.circuit_id not in newest or circuit.version >= newest[circuit.circuit_id].version:
                    newest[circuit.circuit_id] = circuit
        ends: dict[str, dict[int, int]] = defaultdict(dict)
        for topic in (self.names.executions, self.names.commands):
            for number in range(self.partitions):
                ends[topic][number] = self.log.end(topic, number)
        return Known(newest, ends[self.names.executions], ends[self.names.commands])

    def _write(self, changes: Changes, *, outputs: bool = True) -> None:
        for key, (tool_name, row) in changes.rows.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row
            self.log.append(self.names.changelog, key, row, partition=owner_partition(tool_name, self.partitions))
        self.leases += changes.leases
        if not outputs:
            return
        for published in changes.circuits:
            owner = owner_partition(published.tool_name, self.partitions)
            self.log.append(self.names.circuits, published.circuit_id.encode(), published.value, partition=owner)
        for letter in changes.dead:
            self.log.append(self.names.dead, letter.key, letter.body, headers=letter.headers())
        for copy in changes.rekeyed:
            self.log.append(copy.topic, copy.tool_name.encode(), copy.value, headers=copy.headers)


def newest_circuits(log: MemoryLog, names: TopicNames) -> dict[str, Circuit]:
    """The highest version of every circuit in the log, by circuit id."""
    found: dict[str, Circuit] = {}
    for number in range(log.partitions(names.circuits)):
        for message in log.read(names.circuits, number, 0):
            if message.value is None:
                found.pop((message.key or b"").decode(), None)
                continue
            circuit = Circuit.model_validate_json(message.value)
            known = found.get(circuit.circuit_id)
            if known is None or known.version < circuit.version:
                found[circuit.circuit_id] = circuit
    return found
