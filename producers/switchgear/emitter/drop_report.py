"""Drop report: that the buffer gave up events, at once the first time, then in summary every ten seconds, and at the end."""

from __future__ import annotations

import logging
import time
from typing import Final

from switchgear.emitter.buffer import Buffer

log: Final = logging.getLogger("switchgear.emitter")

_EVERY_S: Final = 10.0


class DropReport:
    """What was told of one buffer's drops."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._told = 0
        self._next = 0.0

    def tell(self, *, last: bool = False) -> None:
        """Log what is new, where it is time to, or for the ``last`` time."""
        dropped = self._buffer.dropped
        if dropped > self._told and (last or time.monotonic() >= self._next):
            log.error(
                "%d events were dropped, %d since the last report: the buffer of %d is full",
                dropped,
                dropped - self._told,
                self._buffer.limit,
            )
            self._told = dropped
            self._next = time.monotonic() + _EVERY_S
