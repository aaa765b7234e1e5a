"""BoundedLog: what goes wrong in a user's extractor, adapter or marker is logged, once a minute, and goes no further."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

AGAIN_S: Final = 60.0
MOST_SUBJECTS: Final = 1_000


class BoundedLog:
    """A warning a subject and minute, with the number of those kept back since.

    Args:
        logger: Where to.
        clock: Monotonic seconds.
    """

    def __init__(self, logger: logging.Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._subjects: dict[str, tuple[float, int]] = {}

    def warning(self, subject: str, error: BaseException | None = None) -> None:
        """Tell that ``subject`` (a stable sentence: it is the key) failed by ``error``."""
        now = self._clock()
        silent_until, kept_back = self._subjects.get(subject, (float("-inf"), 0))
        if now < silent_until:
            self._subjects[subject] = (silent_until, kept_back + 1)
            return
        if len(self._subjects) >= MOST_SUBJECTS:
            self._subjects.clear()
        self._subjects[subject] = (now + AGAIN_S, 0)
        more = f" ({kept_back} more since the last report)" if kept_back else ""
        self._logger.warning("%s%s%s", subject, "" if error is None else f": {_shown(error)}", more)


def _shown(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - a user's __str__ may fail; the call must not
        return kind
