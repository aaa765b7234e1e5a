"""MemoryFollower: the real follower's table and listeners, fed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from switchgear.background import Background
from switchgear.fleet import Message
from switchgear.follower.follower import CircuitFollower
from switchgear.follower.status import STALE_AFTER_S, FollowerStatus


class _Place(NamedTuple):
    topic: str
    partition: int


class MemoryFollower(CircuitFollower):
    """Takes records in when :meth:`deliver` is called, which are old ones until ``loaded`` is set. When :meth:`cut` the table stays as it is.

    Args:
        clock: monotonic seconds.
        topic_prefix: of the topics.
    """

    def __init__(self, clock: Callable[[], float], *, topic_prefix: str = "switchgear.") -> None:
        super().__init__("memory:1", topic_prefix=topic_prefix, background=Background("memory"))
        self._clock = clock
        self._offsets: dict[int, int] = {}
        self._away_since: float | None = None
        self.ended = False
        """It was closed."""

    def deliver(self, messages: Sequence[Message]) -> None:
        """Take in records of one partition of the circuits topic, in their order."""
        if messages:
            first = messages[0]
            self._take({_Place(first.topic, first.partition): list(messages)}, self.table, self._offsets)

    @property
    def connected(self) -> bool:
        """The broker answers."""
        return self._away_since is None

    def cut(self) -> None:
        """From now on the broker does not answer."""
        if self._away_since is None:
            self._away_since = self._clock()

    def mend(self) -> None:
        """The broker answers again; not one that was closed."""
        if not self.ended:
            self._away_since = None

    def end(self) -> None:
        """It hears nothing more."""
        self.ended = True
        self.cut()

    def start(self) -> None:
        """Nothing to start."""

    def wait_loaded(self, timeout: float) -> bool:  # noqa: ARG002 - the real one's signature
        """The circuits are loaded when there is a follower."""
        return self.loaded

    def close(self, timeout: float = 5.0) -> bool:  # noqa: ARG002 - the real one's signature
        """See :meth:`end`."""
        self.end()
        return True

    def age_s(self) -> float | None:
        """Seconds since the broker last answered."""
        return 0.0 if self._away_since is None else self._clock() - self._away_since

    def status(self) -> FollowerStatus:
        """Condition, as of now."""
        age_s = self.age_s()
        return FollowerStatus(
            loaded=self.loaded,
            connected=self.connected,
            circuits=len(self.table.views),
            lag=0,
            age_s=age_s,
            malformed=self.table.malformed,
            last_error=None,
            stale=age_s is None or age_s >= STALE_AFTER_S,
        )
