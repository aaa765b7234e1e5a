"""The result of checking a promise. A promise is a pure function of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.chaos.evidence import Evidence

SHOWN = 10


@dataclass
class PromiseResult:
    """Whether a promise held, and the faults if it did not."""

    promise: str
    summary: str
    faults: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        if self.held:
            return f"{self.promise}: held ({self.summary})"
        more = f"; {len(self.faults) - SHOWN} more" if len(self.faults) > SHOWN else ""
        return f"{self.promise}: BROKEN ({self.summary}; {len(self.faults)} faults: {'; '.join(self.faults[:SHOWN])}{more})"


Promise = Callable[[Evidence], PromiseResult]


def check_promises(evidence: Evidence, promises: Iterable[Promise]) -> list[PromiseResult]:
    """Return one result per promise, in the order of ``promises``."""
    return [promise(evidence) for promise in promises]
