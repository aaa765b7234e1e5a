"""Receipt: what the broker said to the records of one ``send``."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Receipt:
    """``acknowledged`` of ``total`` records are in the log; ``refused`` names each of the others by index with the reason."""

    total: int
    acknowledged: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Every record has its answer."""
        return self.acknowledged + len(self.refused) >= self.total
