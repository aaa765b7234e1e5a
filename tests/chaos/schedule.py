"""Which fault begins when. The schedule is a pure function of the seed, so you can repeat a run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FIRST_S = 3.0
MEAN_GAP_S = 8.0
RECOVER_S = 3.0
"""Pause between two faults of one domain."""


@dataclass(frozen=True, slots=True)
class Span:
    """The domain and the length of a kind of fault."""

    domain: str
    """Two faults of one domain never overlap. Faults of different domains may."""
    shortest_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned fault."""

    at: float
    kind: str
    seconds: float
    choice: int
    """A random number, by which the fault chooses its target."""

    def __str__(self) -> str:
        return f"{self.at:6.1f} s  {self.kind} for {self.seconds:.1f} s"


def plan(seed: int, seconds: float, spans: Mapping[str, Span], mean_gap_s: float = MEAN_GAP_S) -> list[Planned]:
    """Return faults that begin and end within ``seconds``: rounds in random order, each with every kind once.

    If the domain of a kind is busy, the next kind goes first. If the run is too short for all kinds, it has a random choice of them.
    """
    chance = random.Random(seed)
    planned: list[Planned] = []
    deck: list[str] = []
    free_at = dict.fromkeys((span.domain for span in spans.values()), 0.0)
    at = FIRST_S
    while at < seconds:
        if not deck:
            deck = sorted(spans)
            chance.shuffle(deck)
        kind = next((name for name in deck if free_at[spans[name].domain] <= at), None)
        if kind is None:
            at += 1.0
            continue
        deck.remove(kind)
        span = spans[kind]
        lasts = chance.uniform(span.shortest_s, span.longest_s)
        if at + lasts <= seconds:
            planned.append(Planned(round(at, 2), kind, round(lasts, 2), chance.getrandbits(32)))
            free_at[span.domain] = at + lasts + RECOVER_S
        at += chance.uniform(0.5, 1.5) * mean_gap_s
    return planned


def missing(planned: Sequence[Planned], spans: Mapping[str, Span]) -> list[str]:
    """Return the kinds that are not in the schedule."""
    return sorted(spans.keys() - {fault.kind for fault in planned})
