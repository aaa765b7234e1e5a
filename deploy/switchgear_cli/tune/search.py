"""Fold every candidate through the same calls, in several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from switchgear_cli.tune.cost import Cost, PricedCall, Prices, cost_of
from switchgear_schemas.policy import BreakerPolicy

Policies = Mapping[str, BreakerPolicy]
"""The policy of each tool."""
_NOTHING: Final = Cost()


@dataclass(frozen=True, slots=True)
class Parts:
    """The calls that candidates are tuned on, and the later ones that they are judged on."""

    tuned: Sequence[PricedCall]
    judged: Sequence[PricedCall]
    prices: Prices

    def costs(self, policies: Policies) -> tuple[Cost, Cost]:
        """Return what the policies cost on each part. Circuits start closed in both."""
        of = policies.__getitem__
        return (
            cost_of(self.tuned, of, self.prices),
            cost_of(self.judged, of, self.prices),
        )


def usable_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    parts: Parts, candidates: Sequence[Policies], *, processes: int, on_done: Callable[[], None]
) -> list[tuple[Cost, Cost]]:
    """Return the costs of every candidate, in their order.

    Args:
        parts: The calls.
        candidates: The policies of each candidate.
        processes: How many processes work. With 1 it is this one.
        on_done: Called after each candidate.
    """
    if processes == 1:
        found = []
        for policies in candidates:
            found.append(parts.costs(policies))
            on_done()
        return found
    costs: list[tuple[Cost, Cost]] = [(_NOTHING, _NOTHING)] * len(candidates)
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(processes, len(candidates)), initializer=_take, initargs=(parts,)) as pool:
        for place, pair in pool.imap_unordered(_work, list(enumerate(candidates))):
            costs[place] = pair
            on_done()
    return costs


_PARTS: list[Parts] = []
"""Of a working process: the calls, which it takes once."""


def _take(parts: Parts) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its pool
    _PARTS.append(parts)


def _work(task: tuple[int, Policies]) -> tuple[int, tuple[Cost, Cost]]:
    place, policies = task
    return place, _PARTS[0].costs(policies)
