"""The sets of tasks. Each module has a ``load`` that returns worlds, or raises NoTasksError with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.bench.benefit.tasks import NoTasksError, World
from tests.bench.benefit.worlds import bfcl, recordings, tau2

LOADERS: Final[tuple[Callable[[], list[World]], ...]] = (bfcl.load, tau2.load, recordings.load)


def load() -> tuple[list[World], list[str]]:
    """Return all worlds that can be read here, and a sentence about each set of tasks that can't."""
    found: list[World] = []
    missing: list[str] = []
    for loader in LOADERS:
        try:
            found += loader()
        except NoTasksError as error:
            missing.append(f"Without the tasks of {loader.__module__.rpartition('.')[2]}: {error}.")
    return found, missing


def here() -> list[World]:
    """Return all worlds that can be read here."""
    return load()[0]
