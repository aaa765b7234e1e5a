"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import random

NO_SPREAD = (1.0, 1.0)
_MOST_DOUBLINGS = 60


def backoff_s(failures: int, first_s: float, longest_s: float, *, spread: tuple[float, float] = NO_SPREAD) -> float:
    """Return the seconds to wait after ``failures`` in a row, at least one: twice as long each time, up to ``longest_s``.

    Args:
        failures: The number of failures.
        first_s: The wait after the first one.
        longest_s: The longest wait.
        spread: The wait is multiplied by a random number between these two, so that processes don't all try at once.
    """
    wait_s: float = min(longest_s, first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
    return wait_s * random.uniform(*spread)  # noqa: S311 - spreads the attempts


class Backoff:
    """The waits between attempts of one kind. Takes the arguments of :func:`backoff_s`.

    Attributes:
        failures: The number of failures in a row.
    """

    def __init__(self, first_s: float, longest_s: float, *, spread: tuple[float, float] = NO_SPREAD) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._spread = spread
        self.failures = 0

    def next_s(self) -> float:
        """Note a failure. Return the seconds to wait after it."""
        self.failures += 1
        return backoff_s(self.failures, self._first_s, self._longest_s, spread=self._spread)

    def reset(self) -> None:
        """Begin again with the first wait: an attempt succeeded."""
        self.failures = 0
