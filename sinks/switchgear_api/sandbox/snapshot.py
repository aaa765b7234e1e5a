"""Snapshot a folder of the embedded engine with links, so that another engine can open it while the first one writes.

One process at a time may open a folder of chDB. A part of a MergeTree table is a folder that never changes after it has its name, so
a link to it is enough. Only the few small files above the parts are copied.

Parts that were merged into another part are left out. The engine may remove them at any time, and no engine opens a table with a
broken link. A part that is merged after the snapshot stays for eight minutes (``old_parts_lifetime`` in ``store/engine.xml``).
TRUNCATE and DROP remove parts at once. Then the query gets another snapshot.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LINKED: Final = ("metadata", "store")
"""The folders that make up the tables, in a folder of the engine."""
_PART: Final = re.compile(r"^([^_]+)_(\d+)_(\d+)_(\d+)(?:_(\d+))?$")
"""Partition, first block, last block, level, mutation."""
_OWN_FOLDERS: Final = frozenset({"detached", "deduplication_logs", "moving"})
_UNFINISHED: Final = ("tmp", "delete_tmp_", "mutation_")  # a mutation is the writer's work; no snapshot may repeat it


def link_snapshot(folder: Path, snapshot: Path) -> None:
    """Replace ``snapshot`` with links to the tables of ``folder`` as they are now. It takes a few milliseconds.

    Raises:
        OSError: ``folder`` can't be read, or ``snapshot`` can't be written.
    """
    for name in LINKED:
        target = snapshot / name
        if target.exists():
            shutil.rmtree(target)
        _link(folder / name, target)


def _link(folder: Path, snapshot: Path) -> None:
    pending = [(folder, snapshot)]
    while pending:
        source, target = pending.pop()
        target.mkdir(parents=True)
        parts: list[str] = []
        for entry in _entries(source):
            if entry.name in _OWN_FOLDERS or entry.name.startswith(_UNFINISHED):
                continue
            path = Path(entry.path)
            if entry.is_symlink():
                (target / entry.name).symlink_to(path)
            elif not entry.is_dir():
                _copy(path, target / entry.name)
            elif _PART.match(entry.name):
                parts.append(entry.name)
            else:
                pending.append((path, target / entry.name))
        for name in uncovered(parts):
            (target / name).symlink_to(source / name)


def uncovered(names: Iterable[str]) -> list[str]:
    """Return the parts of a table that were not merged into another one, by the names of their folders."""
    parts = sorted((_Part.of(name) for name in names), key=lambda each: each.order)
    kept: list[_Part] = []
    for part in parts:
        if not kept or not kept[-1].covers(part):
            kept.append(part)
    return [part.name for part in kept]


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    partition: str
    first: int
    last: int
    level: int
    mutation: int

    @classmethod
    def of(cls, name: str) -> _Part:
        found = _PART.match(name)
        if found is None:
            raise ValueError(f"{name!r} is not a part.")
        return cls(name, found[1], *(int(number or 0) for number in found.groups()[1:]))

    @property
    def order(self) -> tuple[str, int, int, int, int]:
        """Sort key that puts a part after the one that covers it."""
        return self.partition, self.first, -self.last, -self.level, -self.mutation

    def covers(self, other: _Part) -> bool:
        same = self.partition == other.partition and self.first <= other.first <= other.last <= self.last
        return same and self.level >= other.level and self.mutation >= other.mutation


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:  # dropped meanwhile
        return []


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        return
