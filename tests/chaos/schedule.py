"""The schedule: which fault begins when. A pure function of the seed, so a run can be made again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FIRST_S = 3.0
MEAN_GAP_S = 8.0
RECOVER_S = 3.0
"""Rest of a domain between two of its faults."""


@dataclass(frozen=True, slots=True)
class Span:
    """What the schedule must know of a kind of fault: whom it strikes, and how long it lasts."""

    domain: str
    """Two faults of one domain never overlap; those of different domains do."""
    shortest_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault to come."""

    at: float
    kind: str
    seconds: float
    choice: int
    """A random number, from which the fault takes whom it strikes."""

    def __str__(self) -> str:
        return f"{self.at:6.1f} s  {self.kind} for {self.seconds:.1f} s"


def plan(seed: int, seconds: float, spans: Mapping[str, Span], mean_gap_s: float = MEAN_GAP_S) -> list[Planned]:
    """Faults that begin and end within ``seconds``: every kind once in random order, then again and again.

    A kind whose domain is busy waits for the next moment; the next in the deck goes first. In a run too short for all kinds those that
    fit are a random choice.
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
    """Kinds that a schedule has not."""
    return sorted(spans.keys() - {fault.kind for fault in planned})
