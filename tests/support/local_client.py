"""A client without Kafka, on a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from switchgear import Switchgear
from switchgear.transport import Wire


class _Clocked:
    """A transport that is only a clock: the client is a local one otherwise."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def connect(self, _client: object, *, service: str, buffer_size: int) -> Wire:
        return Wire(clock=self._clock, wall=self._clock)


def local_client(clock: Callable[[], float], **options: Any) -> Switchgear:
    """Return what ``Switchgear.local(**options)`` makes, with ``clock`` as its monotonic clock and its clock of the day."""
    return Switchgear(_Clocked(clock), **options)
