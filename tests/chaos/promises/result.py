"""The result of checking a promise. A promise is a pure function of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.chaos.evidence import Evidence

SHOWN = 10


@dataclass
class PromiseResult:
    """Whether a promise held, and the faults if it did not.

    ``evidence`` is how many things the promise is about were there to check: calls, records, probes. Without any it was not tested.
    """

    promise: str
    summary: str
    evidence: int
    faults: list[str] = field(default_factory=list)

    @property
    def tested(self) -> bool:
        return bool(self.evidence or self.faults)

    @property
    def held(self) -> bool:
        return self.tested and not self.faults

    @property
    def broken(self) -> bool:
        return bool(self.faults)

    def __str__(self) -> str:
        if not self.broken:
            return f"{self.promise}: {'held' if self.tested else 'not tested'} ({self.summary})"
        more = f"; {len(self.faults) - SHOWN} more" if len(self.faults) > SHOWN else ""
        return f"{self.promise}: BROKEN ({self.summary}; {len(self.faults)} faults: {'; '.join(self.faults[:SHOWN])}{more})"


Promise = Callable[[Evidence], PromiseResult]


def check_promises(evidence: Evidence, promises: Iterable[Promise]) -> list[PromiseResult]:
    """Return one result per promise, in the order of ``promises``."""
    return [promise(evidence) for promise in promises]
