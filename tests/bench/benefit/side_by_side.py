"""Simulate cells on all cores. What comes out is the same as one after the other, in the same order."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.bench.benefit.simulate import Cell, Outcome, simulate
from tests.bench.benefit.tasks import World

_worlds: list[World] = []
"""In a process of the pool: all worlds. A seed decides which one a cell is simulated in."""


def _load(load: Callable[[], list[World]]) -> None:
    _worlds[:] = load()


def _run(cell: Cell) -> tuple[str, Outcome]:
    world = _worlds[cell.seed % len(_worlds)]
    return world.name, simulate(cell, world)


def outcomes(
    cells: Iterable[Cell], load: Callable[[], list[World]], cores: int | None = None
) -> Iterator[tuple[Cell, str, Outcome]]:
    """Yield each cell with the name of its world and its outcome.

    Args:
        cells: What to simulate.
        load: Returns the worlds. A function of a module, because each process calls it.
        cores: How many processes, by default one for each core.
    """
    wanted = list(cells)
    with ProcessPoolExecutor(cores or os.cpu_count(), multiprocessing.get_context("spawn"), _load, (load,)) as pool:
        for cell, (world, outcome) in zip(wanted, pool.map(_run, wanted), strict=True):
            yield cell, world, outcome
