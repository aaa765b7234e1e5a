"""Rows that lie where another partition owned their circuits: before there were families, or under another ``family_pattern``.

The owner of the partition in which they belong now reads them from the others once, and goes on from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from switchgear.fleet.rows import MARK, Row, RowError, applied, check_row, is_circuit
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.partitioner import partition_of


class MovedRows:
    """The rows of other partitions that belong into some.

    Args:
        homes: The partitions that are to have them.
        partitions: Number of partitions.
        family_pattern: Which tools belong to a family.
    """

    def __init__(self, homes: Collection[int], *, partitions: int, family_pattern: str = DEFAULT_PATTERN) -> None:
        self._homes = frozenset(homes)
        self._partitions: Final = partitions
        self._pattern: Final = family_pattern
        self._found: dict[bytes, dict[int, bytes]] = defaultdict(dict)
        """By key, the newest row in each partition."""

    def add(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Add the next record of the changelog of ``partition``. The owner of that partition reports records that are not rows."""
        if key == MARK or not is_circuit(key):
            return
        if value is None:
            if key in self._found:
                self._found[key].pop(partition, None)
            return
        try:
            if check_row(key, value, partition, self._partitions, self._pattern):
                return
        except RowError:
            return
        home = partition_of(Row.decode(value).tool_name, self._partitions, self._pattern)
        known = self._found[key].get(partition) if key in self._found else None
        if home in self._homes and (known is None or applied(value) >= applied(known)):
            self._found[key][partition] = value

    def rows(self, held: Mapping[bytes, bytes]) -> dict[int, dict[bytes, bytes]]:
        """Return the rows that are newer than those held, by the partition in which they belong now."""
        found: dict[int, dict[bytes, bytes]] = defaultdict(dict)
        for key, places in self._found.items():
            newest = max(places.values(), key=applied, default=None)
            if newest is None or (key in held and applied(held[key]) >= applied(newest)):
                continue
            row = Row.decode(newest)
            # Copies that lie in the former partition are fenced by what it applied. Later records come by the shorter way.
            row.moved = dict(row.fences)
            found[partition_of(row.tool_name, self._partitions, self._pattern)][key] = row.encode()
        return found

    def left(self) -> dict[int, list[bytes]]:
        """Return the keys of the rows in each partition in which they no longer belong."""
        found: dict[int, list[bytes]] = defaultdict(list)
        for key, places in self._found.items():
            for partition in places:
                found[partition].append(key)
        return found
