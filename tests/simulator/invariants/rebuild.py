"""Workers that die, are replaced and read records twice have the same rows as one worker that reads the log once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from switchgear.fleet import FleetFold, Message, Row
from switchgear.fleet.rows import applied
from switchgear.testing.worker import LATE_AFTER_S
from tests.simulator.invariants.broken import Histories
from tests.simulator.scenario import FAMILY_PATTERN

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation


NAME: Final = "rebuild-agrees"
_COMPARED: Final = (
    "breaker",
    "fences",
    "command_fences",
    "clock",
    "total_calls",
    "total_failed",
    "total_ignored",
    "total_rejected",
    "late",
    "state",
    "last_error",
)


class Rebuild:
    """Folds the log once, and compares the rows with those of the workers.

    Executions and commands are two topics, and a worker may take them in either order. Its rows show the order, and the rebuild follows it.
    """

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self._durable: dict[bytes, bytes] = {}
        self._rows: dict[bytes, bytes] = {}
        self._fold = FleetFold(
            self._rows,
            simulation.policies,
            partitions=simulation.scenario.partitions,
            late_after_s=LATE_AFTER_S,
            family_pattern=FAMILY_PATTERN,
        )
        self._read: dict[int, int] = defaultdict(int)
        self._commands: dict[str, list[Message]] = defaultdict(list)
        self._places: dict[str, list[tuple[int, Message]]] = defaultdict(list)
        self.compared = self.records = 0

    def commanded(self, tool: str, message: Message) -> None:
        """Note a command of the log. The rows show later where it was applied."""
        self._commands[tool].append(message)

    def row_written(self, message: Message) -> None:
        """Note a row of the changelog."""
        assert message.key is not None
        assert message.value is not None
        known = self._durable.get(message.key)
        if known is not None and applied(message.value) < applied(known):
            return  # a replaced worker wrote it
        self._durable[message.key] = message.value
        waiting = self._commands.get(message.key.decode())
        if waiting:
            row = Row.decode(message.value)
            done = row.command_fences.get(message.partition, -1)
            while waiting and waiting[0].offset <= done:
                self._places[row.tool_name].append((row.fences.get(message.partition, -1), waiting.pop(0)))

    def has_row(self, tool: str) -> bool:
        """Return whether the changelog has a row of the tool."""
        return tool.encode() in self._durable

    def checkpoint(self) -> None:
        """Fold what was acknowledged since the last time, compare the rows where nothing is under way, and drop the log."""
        simulation = self._simulation
        names, log = simulation.names, simulation.log
        for number in range(simulation.scenario.partitions):
            end = log.committed.get((names.executions, number), 0)
            self._advance(log.read(names.executions, number, self._read[number], end - self._read[number]))
            self._read[number] = max(end, self._read[number])
        for tool, places in list(self._places.items()):
            number = simulation.by_name[tool].partition
            while places and places[0][0] < self._read[number]:
                self._fold.commands([places.pop(0)[1]])
        self._take()
        self._compare()
        for number in range(simulation.scenario.partitions):
            log.forget_before(names.executions, number, self._read[number])

    def rows(self) -> dict[str, Row]:
        """Return the workers' rows by circuit id."""
        return {key.decode(): Row.decode(value) for key, value in self._durable.items()}

    def _advance(self, messages: list[Message]) -> None:
        """Fold records of one partition, and each command at the place where the tool's row shows it."""
        ready: list[Message] = []
        for message in messages:
            places = self._places.get((message.key or b"").decode())
            while places and places[0][0] < message.offset:
                self._fold.executions(ready)
                ready = []
                self._fold.commands([places.pop(0)[1]])
            ready.append(message)
        self._fold.executions(ready)
        self.records += len(messages)

    def _take(self) -> None:
        for key, (_, row) in self._fold.take().rows.items():
            assert row is not None
            self._rows[key] = row

    def _compare(self) -> None:
        names, log = self._simulation.names, self._simulation.log
        for key, value in self._durable.items():
            row = Row.decode(value)
            number = self._simulation.by_name[row.tool_name].partition
            if row.fences.get(number, -1) >= self._read[number] or self._commands.get(row.tool_name):
                continue  # the row is ahead of the acknowledged offset: its worker died, and another one reads the records again
            if self._simulation.workers.away_within(number, self._simulation.agenda.now):
                continue
            if any(log.committed.get((names.executions, n), 0) < log.end(names.executions, n) for n in self._read):
                continue  # copies of foreign events may come from any partition
            self._same(row, Row.decode(self._rows[key]))

    def _same(self, row: Row, rebuilt: Row) -> None:
        self.compared += 1
        for name in _COMPARED:
            found: Any = getattr(row, name)
            wanted: Any = getattr(rebuilt, name)
            if found != wanted:
                what = f"{name} of the worker's row is {found!r}, of the row rebuilt from the log {wanted!r}"
                raise self._histories.broken(NAME, row.circuit_id, what)

    def line(self) -> str:
        """Return the result in one line."""
        return f"{NAME}: held ({self.compared} rows compared, {self.records} records folded once more)"
