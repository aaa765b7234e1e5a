"""MemoryEmitter: the real emitter up to its buffer, encoding included; what it would send goes to a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from switchgear.emitter.emitter import Emitter
from switchgear.emitter.event import Event
from switchgear.emitter.records import singles
from switchgear.emitter.status import EmitterStatus, Receipt
from switchgear.fleet import Message
from switchgear.follower.follower import CircuitFollower
from switchgear.follower.status import STALE_AFTER_S, FollowerStatus
from switchgear.runtime.background_thread import Background
from switchgear_schemas.errors import SwitchgearError

_AT_ONCE: Final = 1_000
Send = Callable[[str, bytes, bool], None]
"""Takes one encoded execution: tool, bytes, and whether it is urgent."""


class MemoryEmitter(Emitter):
    """Sends in the caller's thread, at once. While ``connected`` is off its events wait in the buffer, as without a broker.

    Args:
        send: gets the events.
        wall: seconds since 1970.
        service: name of the calling service.
        emitter_id: of this process; minted unless given.
        mint: makes the ``metric_id`` of an event that has none; the real one's unless given.
        buffer_size: events held while not connected; when full the oldest goes.
    """

    takes_tuples = False  # each event is given its id in emit()

    def __init__(
        self,
        send: Send,
        wall: Callable[[], float],
        *,
        service: str = "",
        emitter_id: str | None = None,
        mint: Callable[[], str] | None = None,
        buffer_size: int = 65_536,
    ) -> None:
        super().__init__("memory:1", service=service, buffer_size=buffer_size, background=Background("memory"))
        if emitter_id is not None:
            self.emitter_id = emitter_id
        self._send = send
        self._wall = wall
        self._mint = mint
        self._connected = True
        self._delivered = 0

    @property
    def connected(self) -> bool:
        """The wire is whole."""
        return self._connected

    def connect(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the real one's signature
        """Mend the wire; what waited goes now."""
        self._connected = True
        self._pour(urgent=True)
        return True

    def cut(self) -> None:
        """Cut the wire: Kafka is away for this process."""
        self._connected = False

    def emit(self, event: Event | dict[str, Any], *, urgent: bool = False, ended_at: float | None = None) -> bool:
        """As the real one's, on the test's clock."""
        if self._mint is not None and isinstance(event, Event) and event.metric_id is None:
            event.metric_id = self._mint()
        return super().emit(event, urgent=urgent, ended_at=self._wall() if ended_at is None else ended_at)

    def submit(self, records: Sequence[tuple[str, bytes]]) -> Future[Receipt]:
        """As the real one's; the future is done on return.

        Raises:
            SwitchgearError: the emitter is closed, or its wire is cut: the real one would wait for the broker.
        """
        if self.closed:
            raise SwitchgearError("This emitter is closed.", hint="Make a new one.")
        if not self._connected:
            raise SwitchgearError("The wire is cut: nothing can be acknowledged.", hint="Mend it first.")
        for tool, value in records:
            self._send(tool, value, True)
        self._sent += len(records)
        self._delivered += len(records)
        done: Future[Receipt] = Future()
        done.set_result(Receipt(len(records), acknowledged=len(records)))
        return done

    def flush(self, timeout: float = 10.0) -> bool:  # noqa: ARG002 - the real one's signature
        """Nothing waits unless the wire is cut."""
        return not len(self.buffer)

    def close(self, timeout: float = 10.0) -> bool:
        """What waits counts as dropped."""
        if not self.closed:
            for callback in self.before_close:
                callback()
        flushed = self.flush(timeout)
        self.closed = True
        return flushed

    def leave(self, waited_s: float) -> None:  # noqa: ARG002 - the real one's signature
        """Close: a wire that is cut is not waited for."""
        self.close()

    def status(self) -> EmitterStatus:
        """Counts and condition, as of now."""
        emitted = self.buffer.accepted + self._sent
        waiting = len(self.buffer)
        return EmitterStatus(
            emitted=emitted,
            acknowledged=self._delivered,
            dropped=self.buffer.dropped + (waiting if self.closed else 0),
            failed=self._encoding_failed,
            buffered=0 if self.closed else waiting,
            connected=self._connected,
            alive=not self.closed,
            last_error=None,
        )

    def wake(self, urgent: bool) -> None:
        """Send what is in the buffer now, unless the wire is cut."""
        if self._connected:
            self._pour(urgent)

    def _pour(self, urgent: bool) -> None:
        while taken := self.buffer.take(_AT_ONCE):
            for record in singles(self._encode(taken)):
                self._delivered += 1
                self._send(record.tool, record.value, urgent)


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
