"""The ledger of a load process: the events that it handed to an emitter, and the outcome of each.

Each process has a file. It writes a line before it hands an event over, so the ledger survives ``kill -9``. The fields of a line are
separated by tabs:

* ``O key tool status time``: offered. These lines are numbered from 0.
* ``A first last``: acknowledged, both included. ``R number reason``: refused. An event without either is unknown.
* ``J number``: offered, but not an execution. It belongs to the dead letters.
* ``D seconds start``: a slow decision of a guard, with the time of its start. ``S json``: sums over its decisions. ``X reason``: a decision
  that raised.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from switchgear.emitter.status import EmitterStatus


@dataclass(frozen=True, slots=True)
class Offered:
    """An event that was handed to an emitter."""

    key: str
    tool: str
    status: str
    time: float


class LedgerWriter:
    """Writes a ledger. Every method can be called from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self.offered = 0

    def offer(self, events: Iterable[Offered], *, junk: bool = False) -> int:
        """Note events before they are handed over, and return the number of the first."""
        with self._lock:
            first = self.offered
            lines = []
            for event in events:
                lines.append(f"O\t{event.key}\t{event.tool}\t{event.status}\t{event.time:.3f}\n")
                if junk:
                    lines.append(f"J\t{self.offered}\n")
                self.offered += 1
            self._write("".join(lines))
            return first

    def acknowledged(self, first: int, last: int) -> None:
        """Note that the events ``first`` to ``last`` were acknowledged."""
        with self._lock:
            self._write(f"A\t{first}\t{last}\n")

    def refused(self, number: int, reason: str) -> None:
        """Note that an event was refused."""
        with self._lock:
            self._write(f"R\t{number}\t{' '.join(reason.split())}\n")

    def slow(self, seconds: float, start: float) -> None:
        """Note a slow decision."""
        with self._lock:
            self._write(f"D\t{seconds:.6f}\t{start:.3f}\n")

    def sums(self, **sums: Any) -> None:
        """Note sums since the start of the process. The last such line counts."""
        with self._lock:
            self._write(f"S\t{json.dumps(sums)}\n")

    def raised(self, error: BaseException) -> None:
        """Note a decision that raised."""
        with self._lock:
            self._write(f"X\t{' '.join(repr(error).split())}\n")

    def close(self) -> None:
        os.close(self._file)

    def _write(self, text: str) -> None:
        os.write(self._file, text.encode())


@dataclass
class Ledger:
    """A ledger as read from its file. A last line without its end was cut by a kill, and is left out."""

    name: str = ""
    offered: list[Offered] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    junk: set[int] = field(default_factory=set)
    slow: list[tuple[float, float]] = field(default_factory=list)
    sums: dict[str, Any] = field(default_factory=dict)
    raised: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Read a ledger.

        Raises:
            ValueError: The file has a line of an unknown kind.
        """
        found = cls(path.stem)
        text = path.read_text()
        for line in text[: text.rfind("\n") + 1].splitlines():
            kind, *fields = line.split("\t")
            found._add(kind, fields)
        return found

    def _add(self, kind: str, fields: list[str]) -> None:
        if kind == "O":
            self.offered.append(Offered(fields[0], fields[1], fields[2], float(fields[3])))
        elif kind == "A":
            self.acknowledged.update(range(int(fields[0]), int(fields[1]) + 1))
        elif kind == "R":
            self.refused[int(fields[0])] = fields[1]
        elif kind == "J":
            self.junk.add(int(fields[0]))
        elif kind == "D":
            self.slow.append((float(fields[0]), float(fields[1])))
        elif kind == "S":
            self.sums = json.loads(fields[0])
        elif kind == "X":
            self.raised.append(fields[0])
        else:
            raise ValueError(f"The ledger {self.name} has a line of an unknown kind: {kind!r}")


class EmittedEvents:
    """Finds out which events of ``emit()`` were acknowledged. ``emit()`` itself reports nothing.

    If the emitter's buffer is empty and nothing was lost since the last look, all events before were acknowledged.
    """

    def __init__(self, ledger: LedgerWriter) -> None:
        self._ledger = ledger
        self._since = 0
        self._lost = 0
        self._own: list[int] = []

    def note(self, number: int) -> None:
        """Note the ledger's number of an event that was handed to ``emit()``."""
        self._own.append(number)

    def look(self, status: EmitterStatus) -> None:
        """Note the acknowledged events. Call it in the thread that calls ``emit()``."""
        if status.buffered or not self._own:
            return
        lost = status.dropped + status.failed
        if lost == self._lost:
            first = previous = self._own[0]
            for number in [*self._own[1:], -1]:
                if number != previous + 1:
                    self._ledger.acknowledged(first, previous)
                    first = number
                previous = number
        self._lost = lost
        self._own.clear()


def read_ledgers(folder: Path) -> list[Ledger]:
    """Return every ``*.ledger`` of the folder, sorted by name."""
    return [Ledger.read(path) for path in sorted(folder.glob("*.ledger"))]
