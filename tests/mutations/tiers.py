"""The two tiers of the Makefile, ``make check`` and ``make test``: which tests each has, and how it runs them.

The expressions and options are those of the Makefile. Change them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ALWAYS: Final = ("-x", "-q", "-p", "no:cacheprovider", "--ignore=tests/unit/support/test_mutations.py")
"""Stop at the first failure: one test that notices a bug is enough. The test of the catalogue would notice each, by its text."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier.

    Attributes:
        name: The Makefile's target.
        marker: The expression that selects its tests; empty for all.
        paths: Where its tests are.
        options: How the whole tier runs: several tests at a time.
    """

    name: str
    marker: str
    paths: tuple[str, ...]
    options: tuple[str, ...]

    def near(self, paths: Iterable[str], checkout: Path) -> list[str]:
        """Return the files of this tier among tests, in their order. Folders are taken apart, and what is not there is left out."""
        within = [checkout / each for each in self.paths]
        files = dict.fromkeys(file for each in paths for file in _files(checkout / each))
        return [str(file.relative_to(checkout)) for file in files if any(file.is_relative_to(each) for each in within)]

    def near_arguments(self, files: list[str], limit_s: float) -> list[str]:
        """Return pytest's arguments for tests near a mutation. A test that hangs fails before the time is over."""
        return [*ALWAYS, f"--timeout={limit_s * 2 / 3:.0f}", *self._selection(), *files]

    def whole_arguments(self) -> list[str]:
        """Return pytest's arguments for all tests of the tier."""
        return [*ALWAYS, *self.options, *self._selection(), *self.paths]

    def _selection(self) -> list[str]:
        return ["-m", self.marker] if self.marker else []


CHECK: Final = Tier("check", "not slow and not deep", ("tests/unit",), ("--numprocesses=2", "--dist=loadfile"))
TEST: Final = Tier("test", "not deep", ("tests",), ("--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder"))
TIERS: Final = {each.name: each for each in (CHECK, TEST)}


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.rglob("test_*.py"))
    elif path.exists():
        yield path
