"""The stream worker without Faust and Kafka. It folds with the same code."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from switchgear.fleet import Changes, FleetFold, Known, PublishedCircuit, read_published
from switchgear.fleet.registry import PolicySource
from switchgear.fleet.rows import applied
from switchgear.testing.log import MemoryLog
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.topics import TopicNames

LATE_AFTER_S: Final = 300.0
"""The default of the worker: an execution that is older on arrival doesn't count."""


def create_topics(log: MemoryLog, names: TopicNames, partitions: int) -> None:
    """Create the topics that guards, workers and operators share."""
    for topic in (names.executions, names.commands, names.dead, names.circuits, names.changelog):
        log.create(topic, partitions)


class MemoryWorker:
    """Own partitions of a log: recover their rows, fold new records, then write rows, records and the offset.

    Args:
        log: Holds the topics; see :func:`create_topics`.
        policies: The policy file.
        names: The names of the topics.
        family_pattern: Which tools belong to a family.
    """

    def __init__(
        self, log: MemoryLog, policies: PolicySource, *, names: TopicNames, family_pattern: str = DEFAULT_PATTERN
    ) -> None:
        self.log = log
        self.names = names
        self.partitions = log.partitions(names.executions)
        self.owned: tuple[int, ...] = ()
        self.rows: dict[bytes, bytes] = {}
        self._held: dict[tuple[str, int], int] = {}
        self._pattern = family_pattern
        self.fold = FleetFold(
            self.rows,
            policies,
            partitions=self.partitions,
            late_after_s=LATE_AFTER_S,
            family_pattern=family_pattern,
        )

    def assign(self, partitions: Iterable[int]) -> None:
        """Own exactly these partitions: recover their rows, and publish what the circuits topic lacks."""
        self.revoke()
        self.owned = tuple(sorted(partitions))
        for number in self.owned:
            self._recover(number)
        self.fold.take_over(self._known())
        self.write(self.fold.take())

    def step(self, partitions: Collection[int] | None = None) -> int:
        """Fold the new commands and write what follows from them, then the new executions. Return the number of both.

        Args:
            partitions: Fold only these. All owned partitions by default.
        """
        commands = self.finish(self.hold(partitions, topics=[self.names.commands]))
        return commands + self.finish(self.hold(partitions, topics=[self.names.executions]))

    def hold(self, partitions: Collection[int] | None = None, *, topics: Iterable[str] | None = None) -> Changes:
        """Fold the new records without writing, as a worker in the middle of a batch. Then call :meth:`finish`."""
        self._held.clear()
        numbers = self.owned if partitions is None else sorted(set(partitions) & set(self.owned))
        for topic in topics or (self.names.commands, self.names.executions):
            fold = self.fold.commands if topic == self.names.commands else self.fold.executions
            for number in numbers:
                records = self.log.read(topic, number, self.log.committed.get((topic, number), 0))
                if records:
                    fold(records)
                    self._held[topic, number] = records[-1].offset + 1
        return self.fold.take()

    def finish(self, changes: Changes) -> int:
        """Write the changes that :meth:`hold` returned, acknowledge their records, and return the number of these."""
        self.write(changes)
        acknowledged = sum(offset - self.log.committed.get(place, 0) for place, offset in self._held.items())
        self.log.committed.update(self._held)
        return acknowledged

    def revoke(self) -> None:
        """Give up all partitions."""
        self.owned = ()
        self.rows.clear()
        self.fold.forget()

    def _recover(self, number: int) -> None:
        """Read the rows of a partition. The newest version wins: a paused former owner may have written an older one behind it."""
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
        return Known(newest, self._ends(self.names.executions), self._ends(self.names.commands))

    def _ends(self, topic: str) -> dict[int, int]:
        return {number: self.log.end(topic, number) for number in range(self.partitions)}

    def write(self, changes: Changes, *, outputs: bool = True) -> None:
        """Write the rows, and with ``outputs`` the records that follow from them."""
        for key, (tool_name, row) in changes.rows.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row
            self.log.append(self.names.changelog, key, row, partition=self._partition_of(tool_name))
        if not outputs:
            return
        for published in changes.circuits:
            owner = self._partition_of(published.tool_name)
            self.log.append(self.names.circuits, published.circuit_id.encode(), published.value, partition=owner)
        for letter in changes.dead:
            self.log.append(self.names.dead, letter.key, letter.body, headers=letter.headers())
        for copy in changes.rekeyed:
            owner = self._partition_of(copy.tool_name)
            self.log.append(copy.topic, copy.tool_name.encode(), copy.value, headers=copy.headers, partition=owner)

    def _partition_of(self, tool_name: str) -> int:
        return partition_of(tool_name, self.partitions, self._pattern)
