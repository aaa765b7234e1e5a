"""The error of a broken invariant, with the history of its circuit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from switchgear_schemas.errors import SwitchgearError

_KEPT: Final = 60


class InvariantBrokenError(SwitchgearError):
    """An invariant did not hold. The message has the virtual time, the circuit's history and the command that repeats the run."""

    def __init__(
        self, invariant: str, what: str, *, at_s: float, circuit_id: str, history: list[str], again: str
    ) -> None:
        before = "\n".join(f"    {line}" for line in history) or "    (nothing)"
        super().__init__(
            f"{invariant}: BROKEN at {at_s:.3f} s, {circuit_id}: {what}\n  what happened to it before:\n{before}",
            hint=f"Again: {again}",
        )
        self.invariant = invariant
        self.circuit_id = circuit_id
        self.at_s = at_s


class Histories:
    """The last events of each circuit.

    Args:
        clock: Virtual seconds.
        again: The command that repeats the run.
    """

    def __init__(self, clock: Callable[[], float], again: str) -> None:
        self._clock = clock
        self._again = again
        self._kept: dict[str, deque[tuple[float, str, tuple[object, ...]]]] = {}

    def note(self, circuit_id: str, words: str, *facts: object) -> None:
        """Note an event. ``words`` are formatted with ``facts`` only for an error."""
        kept = self._kept.get(circuit_id)
        if kept is None:
            kept = self._kept[circuit_id] = deque(maxlen=_KEPT)
        kept.append((self._clock(), words, facts))

    def broken(self, invariant: str, circuit_id: str, what: str) -> InvariantBrokenError:
        """Return the error to raise."""
        lines = [f"{at:12.3f} s  {words.format(*facts)}" for at, words, facts in self._kept.get(circuit_id, ())]
        return InvariantBrokenError(
            invariant, what, at_s=self._clock(), circuit_id=circuit_id, history=lines, again=self._again
        )
