"""Log lines that repeat: one per subject and interval, with the number of those left out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Final

AGAIN_S: Final = 60.0
MOST_SUBJECTS: Final = 1_000


class Throttle:
    """Let one of each key pass per ``interval_s``, and count the others. It remembers a bounded number of keys."""

    def __init__(self, interval_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._passed: dict[Hashable, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._passed)

    def admit(self, key: Hashable, amount: int = 1) -> int | None:
        """Return how much was left out since the last one of ``key`` passed; None if this one must not pass."""
        now = self._clock()
        passed_at, left_out = self._passed.get(key, (float("-inf"), 0))
        if now - passed_at < self._interval_s:
            self._passed[key] = (passed_at, left_out + amount)
            return None
        if key not in self._passed and len(self._passed) >= MOST_SUBJECTS:
            self._passed.clear()
        self._passed[key] = (now, 0)
        return left_out


class BoundedLog:
    """Log one warning per subject and minute, with the number of those left out."""

    def __init__(self, logger: logging.Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._throttle = Throttle(AGAIN_S, clock=clock)

    def warning(self, subject: str, error: BaseException | None = None) -> None:
        """Log that ``subject`` failed with ``error``.

        Args:
            subject: A sentence that stays the same for the same cause: it is the key.
            error: The error, if there is one.
        """
        left_out = self._throttle.admit(subject)
        if left_out is None:
            return
        more = f" ({left_out} more since the last report)" if left_out else ""
        self._logger.warning("%s%s%s", subject, "" if error is None else f": {_shown(error)}", more)


def _shown(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - a user's __str__ may fail; the call must not
        return kind
