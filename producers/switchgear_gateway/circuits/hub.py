"""The circuits of this gateway, which its streams follow."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec
import structlog

from switchgear.follower.status import STALE_AFTER_S
from switchgear.follower.table import RecordListener
from switchgear.runtime.throttled_log import Throttle
from switchgear_gateway.circuits.changes import CircuitChanges
from switchgear_gateway.circuits.feed import CircuitFeed
from switchgear_gateway.circuits.visibility import CircuitFilter
from switchgear_http.event_stream import EventHub, Piece
from switchgear_schemas.errors import SwitchgearError

log = structlog.get_logger()

_SHARED_PIECES: Final = 64
_REPORT_EVERY_S: Final = 5.0


class Follower(Protocol):
    """What the hub needs of the SDK's follower."""

    record_listeners: list[RecordListener]
    loaded: bool

    def age_s(self) -> float | None:
        """Return the seconds since the broker last answered."""
        ...


class CircuitHub(EventHub):
    """Takes the follower's changes, and wakes the streams. A stream's group is its client's tenant.

    Args:
        follower: It must not have begun to read.

    Raises:
        SwitchgearError: The follower has read circuits already.
    """

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        if follower.loaded:
            raise SwitchgearError(
                "The follower has read the circuits already.", hint="Make the routes before the client starts."
            )
        self._follower = follower
        self._feed = CircuitFeed()
        follower.record_listeners.append(self._feed)
        self._next: CircuitChanges | None = CircuitChanges()
        self._pieces: dict[tuple[CircuitFilter, int], Piece] = {}
        self._throttle = Throttle(_REPORT_EVERY_S)
        self.changes = CircuitChanges()
        """The circuits. Another object after the topic was created again: a stream then begins with a snapshot."""
        self.loaded = False
        """Whether all circuits were read once."""

    @property
    def fresh(self) -> bool:
        """Whether the circuits are current."""
        age_s = self._follower.age_s()
        return self.loaded and age_s is not None and age_s < STALE_AFTER_S

    async def run(self) -> None:
        """Take changes until it is cancelled. Then the streams end."""
        try:
            while True:
                await self._feed.wait()
                self._take()
                self.wake()
        finally:
            self.close()

    def piece_since(self, number: int, seen: CircuitFilter) -> Piece | None:
        """Return the next events from this number on. Streams at the same place share the bytes. None if some were forgotten."""
        piece = self._pieces.get((seen, number)) or self.changes.log.piece_since(number, seen.event)
        if piece is not None and len(self._pieces) < _SHARED_PIECES:
            self._pieces[seen, number] = piece
        return piece

    def _take(self) -> None:
        restarted, records, loaded = self._feed.take()
        self._pieces.clear()
        if restarted:
            self._next = CircuitChanges()
        changes = self._next or self.changes
        for record in records:
            try:
                changes.add(record)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                left_out = self._throttle.admit("not a circuit")
                if left_out is not None:
                    log.warning("a record of a circuit can't be passed on", why=str(error), more=left_out)
        if loaded and self._next is not None:
            self.changes, self._next = self._next, None
            self.loaded = True
