"""The events of ``emit()`` that have certainly arrived. ``emit()`` itself reports none."""

from __future__ import annotations

from switchgear.emitter.status import EmitterStatus
from tests.chaos.ledger import LedgerWriter


class HandedOver:
    """Whenever the emitter has nothing left and has lost nothing since the last look, all before was acknowledged."""

    def __init__(self, ledger: LedgerWriter) -> None:
        self._ledger = ledger
        self._since = 0
        self._lost = 0
        self._own: list[int] = []

    def note(self, number: int) -> None:
        """An event with this number in the ledger was handed over."""
        self._own.append(number)

    def look(self, status: EmitterStatus) -> None:
        """Call in the thread that hands over."""
        if status.buffered or not self._own:
            return
        lost = status.dropped + status.failed
        if lost == self._lost:
            first = previous = self._own[0]
            for number in [*self._own[1:], -1]:
                if number != previous + 1:
                    self._ledger.acknowledged(first, previous)
                    first = number
                previous = number
        self._lost = lost
        self._own.clear()
