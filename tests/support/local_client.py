"""A client without Kafka, on a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from switchgear import Switchgear


class _Both:
    """One clock as the monotonic clock and as that of the day."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.monotonic = self.wall = clock


def local_client(clock: Callable[[], float], **options: Any) -> Switchgear:
    """Return ``Switchgear.local(**options)`` with ``clock`` as its monotonic clock and its clock of the day."""
    return Switchgear.local(clock=_Both(clock), **options)
