"""The mutations: small bugs that would matter to a user. Each area has a file in the folder ``catalogue``.

A file has the tests of its area as ``near``. A mutation has those that are most likely to notice it as its own ``near``, cheapest first.
They are chosen by what matters, and not by what the tests check.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).with_name("catalogue")
LIMIT_S: Final = 300.0
"""The longest run of the tests near a mutation, in seconds."""
_KEYS: Final = {"id", "harm", "file", "old", "new", "near"}


class CatalogueError(Exception):
    """A file of the catalogue is wrong."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One bug.

    Attributes:
        id: Begins with the area.
        area: The name of its file.
        harm: What a user would see.
        file: The file that it is in, from the root of the checkout.
        old: A text that occurs once in that file.
        new: What stands there instead.
        near: Files and folders of tests, those most likely to notice it first.
        limit_s: The longest run of those tests, in seconds.
    """

    id: str
    area: str
    harm: str
    file: str
    old: str
    new: str
    near: tuple[str, ...]
    limit_s: float = LIMIT_S

    def mutated(self, source: str) -> str:
        """Return the source with the bug.

        Raises:
            CatalogueError: The old text doesn't occur exactly once.
        """
        found = source.count(self.old)
        if found != 1:
            raise CatalogueError(f"{self.id}: its old text occurs {found} times in {self.file}.")
        return source.replace(self.old, self.new)


def load(folder: Path = FOLDER) -> list[Mutation]:
    """Return all mutations, by area.

    Raises:
        CatalogueError: A mutation has an unknown key, or lacks one.
    """
    return [each for path in sorted(folder.glob("*.toml")) for each in _of_area(path)]


def chosen(mutations: list[Mutation], globs: list[str]) -> list[Mutation]:
    """Return the mutations whose ids match one of the globs; without globs, all."""
    return [each for each in mutations if not globs or any(fnmatchcase(each.id, glob) for glob in globs)]


def _of_area(path: Path) -> list[Mutation]:
    document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    unknown = document.keys() - {"near", "limit_s", "mutation"}
    if unknown:
        raise CatalogueError(f"{path.name} has unknown keys: {', '.join(sorted(unknown))}.")
    return [_mutation(path.stem, given, document) for given in document["mutation"]]


def _mutation(area: str, given: dict[str, Any], document: dict[str, Any]) -> Mutation:
    name = given.get("id", "?")
    if not _KEYS - {"near"} <= given.keys() <= _KEYS:
        raise CatalogueError(f"{area}.toml, {name}: wrong keys {sorted(given.keys() ^ _KEYS)}.")
    near = dict.fromkeys([*given.get("near", ()), *document.get("near", ())])
    fields = {key: str(given[key]) for key in _KEYS - {"near"}}
    return Mutation(area=area, near=tuple(near), limit_s=float(document.get("limit_s", LIMIT_S)), **fields)
