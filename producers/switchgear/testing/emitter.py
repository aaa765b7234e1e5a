"""MemoryEmitter: the real emitter up to its buffer, encoding included; what it would send goes to a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from switchgear.background import Background
from switchgear.emitter.emitter import Emitter
from switchgear.emitter.event import Event
from switchgear.emitter.receipt import Receipt
from switchgear.emitter.record import singles
from switchgear.emitter.status import EmitterStatus
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
        if self._closed:
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
        return not len(self._buffer)

    def close(self, timeout: float = 10.0) -> bool:
        """What waits counts as dropped."""
        if not self._closed:
            for callback in self.before_close:
                callback()
        flushed = self.flush(timeout)
        self._closed = True
        return flushed

    def leave(self, waited_s: float) -> None:  # noqa: ARG002 - the real one's signature
        """Close: a wire that is cut is not waited for."""
        self.close()

    def status(self) -> EmitterStatus:
        """Counts and condition, as of now."""
        emitted = self._buffer.accepted + self._sent
        waiting = len(self._buffer)
        return EmitterStatus(
            emitted=emitted,
            acknowledged=self._delivered,
            dropped=self._buffer.dropped + (waiting if self._closed else 0),
            failed=self._encoding_failed,
            buffered=0 if self._closed else waiting,
            connected=self._connected,
            alive=not self._closed,
            last_error=None,
        )

    def _rouse(self, urgent: bool) -> None:
        if self._connected:
            self._pour(urgent)

    def _pour(self, urgent: bool) -> None:
        while taken := self._buffer.take(_AT_ONCE):
            for record in singles(self._encode(taken)):
                self._delivered += 1
                self._send(record.tool, record.value, urgent)
