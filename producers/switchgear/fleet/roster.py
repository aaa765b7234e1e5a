"""Roster: which circuits exist, so that there is a bound to them and one more name costs the same however many there are."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

from switchgear.breaker.shelves import MAX_CIRCUITS_PER_TOOL
from switchgear.fleet.row import Row
from switchgear_schemas.partitioner import owner_partition

MAX_TOOLS: Final = 50_000
"""Tools of one partition: about 1 kB each in the table. It is a bound against invented names, not a size to plan for."""
MAX_SCOPED: Final = MAX_CIRCUITS_PER_TOOL
"""Circuits of users or sessions of one tool; the local breakers have the same bound."""


class Ring:
    """Names in the order of their hashes: an order that depends on nothing but the names, so every owner looks at the same ones."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self._places)

    def add(self, name: str) -> None:
        """Put a name in; one that is there stays."""
        place = _place(name)
        at = bisect_left(self._places, place)
        if at == len(self._places) or self._places[at] != place:
            insort(self._places, place)

    def discard(self, name: str) -> None:
        """Take a name out, if it is there."""
        place = _place(name)
        at = bisect_left(self._places, place)
        if at < len(self._places) and self._places[at] == place:
            del self._places[at]

    def after(self, name: str, count: int) -> list[str]:
        """Up to ``count`` names that follow ``name``, around the end."""
        at = bisect_left(self._places, _place(name))
        return [found for _, found in (self._places[at : at + count] + self._places[: max(0, at + count - len(self))])][
            : min(count, len(self))
        ]


class Roster:
    """The names of all rows: tools by partition, users' and sessions' circuits by tool."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._tools: dict[int, Ring] = {}
        self._scoped: dict[str, Ring] = {}

    def fill(self, rows: Iterable[bytes]) -> None:
        """Add every row of a table."""
        for data in rows:
            self.add(Row.decode(data))

    def tools_beside(self, tool_name: str) -> Ring:
        """The tools of the partition that owns ``tool_name``."""
        return self.tools_in(owner_partition(tool_name, self._partitions))

    def tools_in(self, partition: int) -> Ring:
        """The tools of a partition."""
        return self._tools.setdefault(partition, Ring())

    def scoped_of(self, tool_name: str) -> Ring:
        """The users' and sessions' circuits of a tool; a copy where there are none."""
        return self._scoped.get(tool_name) or Ring()

    def add(self, row: Row) -> None:
        """A circuit exists."""
        if row.scope == "tool":
            self.tools_beside(row.tool_name).add(row.circuit_id)
        else:
            self._scoped.setdefault(row.tool_name, Ring()).add(row.circuit_id)

    def discard(self, row: Row) -> None:
        """A circuit exists no more."""
        if row.scope == "tool":
            self.tools_beside(row.tool_name).discard(row.circuit_id)
            return
        ring = self._scoped.get(row.tool_name)
        if ring is not None:
            ring.discard(row.circuit_id)
            if not len(ring):
                del self._scoped[row.tool_name]


def _place(name: str) -> tuple[int, str]:
    return crc32(name.encode()), name
