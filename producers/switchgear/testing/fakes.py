"""An emitter and a follower in memory, with the methods that a client calls and without threads or Kafka."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from switchgear.emitter.encode import encode_event, encode_fields
from switchgear.emitter.event import Event
from switchgear.emitter.status import EmitterStatus
from switchgear.fleet import Message
from switchgear.follower.status import STALE_AFTER_S, BrokerTime, FollowerStatus
from switchgear.follower.table import CircuitTable, RecordListener
from switchgear.follower.view import CircuitView
from switchgear.testing.log import MemoryLog
from switchgear_schemas.ids import mint_emitter_id

logger: Final = logging.getLogger("switchgear.emitter")

Send = Callable[[str, bytes, bool], None]
"""Takes one encoded execution: tool, bytes, and whether it is urgent."""


class MemoryEmitter:
    """Encode events and give them to a function, in the caller's thread. While disconnected, events wait in a bounded buffer.

    Args:
        send: Receives the encoded events.
        wall: Returns seconds since 1970.
        service: The name of the calling service.
        emitter_id: The id of this process. Minted by default.
        buffer_size: The most events to hold while disconnected. The oldest is dropped first.
    """

    takes_tuples = False
    """The guard's fast path must call :meth:`emit` for every event."""

    def __init__(
        self,
        send: Send,
        wall: Callable[[], float],
        *,
        service: str = "",
        emitter_id: str | None = None,
        buffer_size: int = 65_536,
    ) -> None:
        self._send = send
        self._wall = wall
        self._service = service
        self.emitter_id = emitter_id or mint_emitter_id(service)
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=buffer_size)
        self._emitted = self._acknowledged = self._dropped = self._failed = 0
        self.connected = True
        """Whether the broker answers."""
        self.closed = False
        self.before_close: list[Callable[[], object]] = []
        """Called before the emitter closes."""

    def emit(self, event: Event | dict[str, Any], *, urgent: bool = False, ended_at: float | None = None) -> bool:
        """Send an event. Return False if the emitter is closed."""
        if self.closed:
            return False
        self._emitted += 1
        try:
            tool, value = self._encode(event, self._wall() if ended_at is None else ended_at)
        except Exception:  # the real one doesn't raise either
            self._failed += 1
            logger.exception("an event was not sent")
            return True
        if self.connected:
            self._deliver(tool, value, urgent=urgent)
        else:
            if len(self._waiting) == self._waiting.maxlen:
                self._dropped += 1
            self._waiting.append((tool, value))
        return True

    def connect(self) -> None:
        """Connect, and send the events that wait."""
        self.connected = True
        while self._waiting:
            self._deliver(*self._waiting.popleft(), urgent=True)

    def cut(self) -> None:
        """Disconnect, as if Kafka were down for this process."""
        self.connected = False

    def flush(self, timeout: float = 10.0) -> bool:  # noqa: ARG002 - the real one's signature
        """Return whether no event waits."""
        return not self._waiting

    def close(self, timeout: float = 10.0) -> bool:
        """Close the emitter. Events that wait are dropped."""
        if not self.closed:
            for callback in self.before_close:
                callback()
        flushed = self.flush(timeout)
        self.closed = True
        self._dropped += len(self._waiting)
        self._waiting.clear()
        return flushed

    def status(self) -> EmitterStatus:
        """Return the counts and the condition."""
        return EmitterStatus(
            emitted=self._emitted,
            acknowledged=self._acknowledged,
            dropped=self._dropped,
            failed=self._failed,
            buffered=len(self._waiting),
            connected=self.connected,
            alive=not self.closed,
            last_error=None,
        )

    def _encode(self, event: Event | dict[str, Any], ended_at: float) -> tuple[str, bytes]:
        if isinstance(event, Event):
            value = encode_event(event, ended_at, emitter_id=self.emitter_id, service=self._service)
            return event.tool_name, value
        return encode_fields(event, ended_at, emitter_id=self.emitter_id, service=self._service)

    def _deliver(self, tool: str, value: bytes, *, urgent: bool) -> None:
        self._acknowledged += 1
        self._send(tool, value, urgent)


class MemoryFollower:
    """Keep a table of circuits from the records given to :meth:`deliver`. Without a thread.

    Args:
        clock: Returns monotonic seconds.
    """

    stale_after_s = STALE_AFTER_S
    """A state that was not confirmed for so long may be outdated."""
    expired = None
    """See :class:`switchgear.follower.base.Follower`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._away_since: float | None = None
        self._offsets: dict[int, int] = {}
        self.table = CircuitTable()
        self.broker_time = BrokerTime()
        self.listeners: list[Callable[[CircuitView], None]] = []
        """Called with every changed view."""
        self.record_listeners: list[RecordListener] = []
        """Get every change."""
        self._loaded = False
        self.tenant = ""
        """Whose circuits these are, besides those that all tenants share. Empty: everybody's."""

    @property
    def loaded(self) -> bool:
        """Whether the circuits are loaded. Records that are delivered before are old ones."""
        return self._loaded

    @loaded.setter
    def loaded(self, loaded: bool) -> None:
        first, self._loaded = loaded and not self._loaded, loaded
        if first:
            for listener in self.record_listeners:
                listener.loaded()

    def deliver(self, messages: Sequence[Message]) -> None:
        """Apply records of the circuits topic, in the order of their partition."""
        for message in messages:
            if self.loaded and self.connected:
                self.broker_time.heard(message.timestamp)
            view = self.table.apply(message.key, message.value)
            if view is not None:
                for listener in self.listeners:
                    listener(view)
            if view is not None or message.value is None:
                for each in self.record_listeners:
                    each.changed(message)

    def read(self, log: MemoryLog, topic: str) -> None:
        """Deliver the records of a topic that this follower has not read."""
        for number in range(log.partitions(topic)):
            messages = log.read(topic, number, self._offsets.get(number, 0))
            self._offsets[number] = log.end(topic, number)
            self.deliver(messages)

    @property
    def connected(self) -> bool:
        """Whether the broker answers."""
        return self._away_since is None

    def cut(self) -> None:
        """Disconnect: the broker doesn't answer. The table stays as it is."""
        if self._away_since is None:
            self._away_since = self._clock()

    def mend(self) -> None:
        """Connect again."""
        self._away_since = None

    def wait_loaded(self, timeout: float) -> bool:  # noqa: ARG002 - the real one's signature
        """Return whether the circuits are loaded."""
        return self.loaded

    async def until_loaded(self, timeout: float) -> bool:  # noqa: ASYNC109 - the real one's signature
        """Return whether the circuits are loaded."""
        return self.wait_loaded(timeout)

    def close(self, timeout: float = 5.0) -> bool:  # noqa: ARG002 - the real one's signature
        """Disconnect for good."""
        self.cut()
        return True

    def age_s(self) -> float | None:
        """Return the seconds since the broker last answered."""
        return 0.0 if self._away_since is None else self._clock() - self._away_since

    def status(self) -> FollowerStatus:
        """Return the counts and the condition."""
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
