"""When a recorded call ended; calls without an instant are stamped on request, and counted as such."""

from __future__ import annotations

from datetime import UTC, datetime

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.wire import Execution
from switchgear_schemas.words import EARLIEST


class UndatedCallError(SwitchgearError):
    """A call has no ``recorded_at``, and no interval was given to stamp one."""


class StampedClock:
    """Instants of calls in seconds since 1970.

    Args:
        interval_s: Seconds between calls that have no ``recorded_at``, the first at 2000-01-01; None refuses them.
    """

    def __init__(self, interval_s: float | None = None) -> None:
        self._interval_s = interval_s
        self.stamped = 0
        """Calls that got a synthetic instant."""

    def end_of(self, call: Execution, line: int) -> float:
        """When ``call`` ended.

        Raises:
            UndatedCallError: it has no instant and none may be stamped.
        """
        at = call.recorded_at
        if at is not None:
            return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        if self._interval_s is None:
            raise UndatedCallError(
                f"Line {line} has no recorded_at.", hint="Give --stamp SECONDS to lay such calls that far apart."
            )
        self.stamped += 1
        return EARLIEST.timestamp() + (self.stamped - 1) * self._interval_s


def in_words(seconds: float) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
