"""Lane: what waits for one partition, in order."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from switchgear.emitter.record import Parcel


class Lane:
    """A partition's queue, oldest first; one batch is in flight at a time."""

    __slots__ = ("answered", "attempts", "busy", "flying", "offered", "one_by_one", "queue")

    def __init__(self) -> None:
        self.queue: deque[Parcel] = deque()
        self.flying: list[Parcel] = []
        self.busy = False
        self.one_by_one = 0
        """Records of a refused batch that are sent alone."""
        self.attempts = 0
        self.offered = 0
        """Records that came, ever."""
        self.answered = 0
        """Records that are done with, ever: acknowledged, refused, or moved to another lane."""


class Mark(NamedTuple):
    """How far each lane had come at one moment."""

    lanes: list[tuple[Lane, int]]

    @property
    def answered(self) -> bool:
        """Everything that waited or was in flight then has its answer."""
        return all(lane.answered >= offered for lane, offered in self.lanes)
