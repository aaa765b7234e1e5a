"""The ids of events that came with the header ``switchgear.resent``, so that a first copy that comes after them is recognised.

A client that gets no answer of a gateway sends its events again to another one, marked. If the first gateway was stopped, or cut off from
the broker, its own copies arrive later, without a mark.
"""

from __future__ import annotations

from typing import Final

OVERTAKEN_S: Final = 120.0
"""How long after a marked event its first copy may arrive. A producer gives up earlier."""
MOST_MARKED: Final = 100_000
"""Ids to remember, about 15 MB. With more, the oldest are forgotten."""


class MarkedIds:
    """Ids of marked events of one partition, with the broker's time of each. Add them in the order of the partition."""

    def __init__(self) -> None:
        self._appended_ms: dict[bytes, int] = {}

    def add(self, identity: bytes, timestamp_ms: int) -> None:
        """Remember a marked event."""
        self._appended_ms.pop(identity, None)
        self._appended_ms[identity] = timestamp_ms
        if len(self._appended_ms) > MOST_MARKED:
            del self._appended_ms[next(iter(self._appended_ms))]

    def any_at(self, timestamp_ms: int) -> bool:
        """Forget the events that are too old at this time of the broker. Return whether some are left."""
        oldest_ms = timestamp_ms - OVERTAKEN_S * 1000
        while self._appended_ms and next(iter(self._appended_ms.values())) < oldest_ms:
            del self._appended_ms[next(iter(self._appended_ms))]
        return bool(self._appended_ms)

    def overtook(self, identity: bytes, timestamp_ms: int) -> bool:
        """Return whether a marked event with this id came before this time of the broker."""
        return self._appended_ms.get(identity, timestamp_ms + 1) <= timestamp_ms
