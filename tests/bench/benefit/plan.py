"""Which cells are run: enough for intervals, and few enough for a quarter of an hour of one core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.benefit.faults import FAULTS
from tests.bench.benefit.reaction import DEFAULT, OTHERS, P_AND_Q, Reaction
from tests.bench.benefit.simulate import Cell

HEALTHY: Final = "none"
BROKEN: Final = tuple(name for name in FAULTS if name != HEALTHY)
MAIN: Final = 10
"""Agents in the tables of all faults, and in the sweep."""
ONE: Final = 1
MANY: Final = 100
SIZES: Final = (ONE, MAIN, MANY)
SIZE_FAULTS: Final = ("explicit, permanent", "quota")
"""The faults in the table of fleet sizes."""
SWEPT_FAULTS: Final = ("explicit, transient", "explicit, permanent")
SWEPT_ARMS: Final = ("nothing", "per-process breaker", "Switchgear", "Switchgear + fallback")
SWEEP: Final = tuple(dict.fromkeys((*P_AND_Q, *OTHERS)))
WAITED_FAULT: Final = "quota"
"""The fault in the table of agents that wait as a refusal says."""
WAITED_ARMS: Final = ("nothing", "Switchgear", "Switchgear + pacing")
WAITS: Final = (DEFAULT, *(each for each in OTHERS if each.waits > 0))


@dataclass(frozen=True)
class Plan:
    """How many seeds. A seed decides which tool breaks, who gets which task, and all draws.

    Attributes:
        seeds: With :data:`MAIN` agents.
        alone: With one agent, which meets few outages.
        many: With :data:`MANY` agents.
        swept: For each reaction.
    """

    seeds: int = 8
    alone: int = 8
    many: int = 1
    swept: int = 4

    def cells(self, arms: list[str]) -> Iterator[Cell]:
        """Yield the cells, each once."""
        for arm in arms:
            for fault in FAULTS:
                yield from (Cell(arm, fault, MAIN, seed) for seed in range(self.seeds))
            for fault in SIZE_FAULTS:
                yield from (Cell(arm, fault, ONE, seed) for seed in range(self.alone))
                yield from (Cell(arm, fault, MANY, seed) for seed in range(self.many))
        for reaction in SWEEP:
            yield from self._swept(reaction, [arm for arm in SWEPT_ARMS if arm in arms], SWEPT_FAULTS)
        for reaction in WAITS:
            yield from self._swept(reaction, [arm for arm in WAITED_ARMS if arm in arms], [WAITED_FAULT])

    def _swept(self, reaction: Reaction, arms: Sequence[str], faults: Sequence[str]) -> Iterator[Cell]:
        if reaction == DEFAULT:  # is run anyway
            return
        for arm in arms:
            for fault in faults:
                yield from (Cell(arm, fault, MAIN, seed, reaction) for seed in range(self.swept))
