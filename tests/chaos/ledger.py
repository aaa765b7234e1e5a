"""The ledger of a load process: the events that it handed over, and the results that it got for them.

One file a process, append only, written before the event is handed over, so it survives ``kill -9`` of its writer. Lines, their fields
separated by tabs:

* ``O key tool status time``: offered; the lines number themselves from 0.
* ``A first last``: acknowledged, both included. ``R number reason``: refused. Without either: unknown.
* ``J number``: offered, but no execution at all: it belongs into the dead letters.
* ``D seconds start``: a slow decision of a guard, with the second it began. ``S json``: sums over its decisions. ``X reason``: one that raised.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Offered:
    """One event that was handed over."""

    key: str
    tool: str
    status: str
    time: float


class LedgerWriter:
    """Writes it; from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self.offered = 0

    def offer(self, events: Iterable[Offered], *, junk: bool = False) -> int:
        """Note events that are about to be handed over; returns the number of the first."""
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
        with self._lock:
            self._write(f"A\t{first}\t{last}\n")

    def refused(self, number: int, reason: str) -> None:
        with self._lock:
            self._write(f"R\t{number}\t{' '.join(reason.split())}\n")

    def slow(self, seconds: float, start: float) -> None:
        with self._lock:
            self._write(f"D\t{seconds:.6f}\t{start:.3f}\n")

    def sums(self, **sums: Any) -> None:
        """Sums since the start of the process: the last line holds."""
        with self._lock:
            self._write(f"S\t{json.dumps(sums)}\n")

    def raised(self, error: BaseException) -> None:
        with self._lock:
            self._write(f"X\t{' '.join(repr(error).split())}\n")

    def close(self) -> None:
        os.close(self._file)

    def _write(self, text: str) -> None:
        os.write(self._file, text.encode())


@dataclass
class Ledger:
    """One ledger read back. A last line without its end was cut by a kill and is left out."""

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


def read_ledgers(folder: Path) -> list[Ledger]:
    """Every ``*.ledger`` of the folder, by name."""
    return [Ledger.read(path) for path in sorted(folder.glob("*.ledger"))]
