"""Continuity: no batch is folded, and so none acknowledged, past records that were never seen.

The offset to commit is the highest acknowledged one, so a batch that got lost between the broker and the agent (a queue that Faust
cleared, a poll dropped in a rebalance) would be skipped for good. Here it is noticed by its offsets and read again.
"""

from __future__ import annotations

from enum import Enum

from faust.types import TP


class Verdict(Enum):
    """What to do with a batch."""

    FOLD = "fold"
    REWIND = "rewind"
    """Records before it are missing: seek back and read them."""
    DROP = "drop"
    """It was fetched before the rewind and comes again."""


class Continuity:
    """The next offset expected of each partition.

    Offsets may be missing in the log itself (transaction markers, retention): if after a rewind the same batch comes first again,
    the gap is the log's own.
    """

    def __init__(self) -> None:
        self._next: dict[TP, int] = {}
        self._rewound: dict[TP, int] = {}

    def forget(self) -> None:
        """Partitions changed hands."""
        self._next.clear()
        self._rewound.clear()

    def expect(self, tp: TP, offset: int) -> None:
        """Start a partition at ``offset``, unless it has started."""
        self._next.setdefault(tp, offset)

    def position(self, tp: TP) -> int | None:
        """The offset after the last record folded; null before the first."""
        return self._next.get(tp)

    def judge(self, tp: TP, first: int) -> Verdict:
        """Look at a batch whose first record has offset ``first``."""
        expected = self._next.get(tp)
        if expected is None or first <= expected:
            return Verdict.FOLD
        missed = self._rewound.get(tp)
        if missed is None:
            self._rewound[tp] = first
            return Verdict.REWIND
        return Verdict.FOLD if first == missed else Verdict.DROP

    def done(self, tp: TP, last: int) -> None:
        """The batch that ends with offset ``last`` was folded."""
        self._next[tp] = max(last + 1, self._next.get(tp, 0))
        self._rewound.pop(tp, None)
