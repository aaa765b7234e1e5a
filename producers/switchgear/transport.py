"""Transport: what a client may be given instead of the address of a broker; ``switchgear.testing`` has one in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from switchgear.client import Switchgear
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower


class Wire(NamedTuple):
    """One client's connection: where its events go, where the circuits come from, and the clocks it decides by."""

    emitter: Emitter
    follower: CircuitFollower
    clock: Callable[[], float]
    """Monotonic seconds."""
    wall: Callable[[], float]
    """Seconds since 1970."""


@runtime_checkable
class Transport(Protocol):
    """Makes the connection of each client that is given it."""

    def connect(self, gear: Switchgear, *, service: str, buffer_size: int) -> Wire:
        """Connect ``gear``, which is still being made: keep it, don't ask it."""
        ...
