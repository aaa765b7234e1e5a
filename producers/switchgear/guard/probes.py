"""ProbeCoordinator: asking the circuit's owner for a probe, one request a circuit and process at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from switchgear.follower.view import CircuitView

ASK_AGAIN_S: Final = 1.0
"""After a request without an answer the next waits this long; until then calls are refused at once."""


@dataclass(slots=True)
class _Asked:
    version: int
    first: float
    last: float


class ProbeCoordinator:
    """Thread-safe. Requests wait for the follower, which tells of every changed view."""

    def __init__(self, *, silence_s: float, clock: Callable[[], float]) -> None:
        self._silence_s = silence_s
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may call a tool amid any of these
        self._waiting: dict[str, Future[None]] = {}
        self._asked: dict[str, _Asked] = {}
        self._used: dict[str, str] = {}
        self.emitter_id = ""

    def ask(self, view: CircuitView) -> Future[None] | None:
        """Register a request: the future is done when the circuit passes or names us. None: refuse, another asks or just did."""
        with self._lock:
            now = self._clock()
            known = self._asked.get(view.circuit_id)
            if view.circuit_id in self._waiting:
                return None
            if known is not None and now < known.last + ASK_AGAIN_S and known.version == view.version:
                return None
            waiter: Future[None] = Future()
            if self._waiting.setdefault(view.circuit_id, waiter) is not waiter:  # a signal handler's has it
                return None
            if known is None or known.version != view.version:
                self._asked[view.circuit_id] = _Asked(view.version, now, now)
            else:
                known.last = now
            return waiter

    def answered(self, circuit_id: str) -> None:
        """The asking call has gone on."""
        with self._lock:
            self._waiting.pop(circuit_id, None)

    def silent(self, view: CircuitView) -> bool:
        """We have asked about this very version for longer than the limit: nobody owns the circuit now."""
        known = self._asked.get(view.circuit_id)
        return known is not None and known.version == view.version and known.last - known.first >= self._silence_s

    def unanswered(self, views: Mapping[str, CircuitView]) -> dict[str, float]:
        """Seconds since the first request, of circuits that were asked for again and whose owner has said nothing since."""
        with self._lock:
            now = self._clock()
            return {
                circuit_id: now - known.first
                for circuit_id, known in self._asked.copy().items()
                if known.last > known.first and (view := views.get(circuit_id)) and view.version == known.version
            }

    def take(self, circuit_id: str, lease_id: str) -> bool:
        """Use a lease for a call; False when a call of this process has it."""
        with self._lock:
            if self._used.get(circuit_id) == lease_id:
                return False
            self._used[circuit_id] = lease_id
            return True

    def give_back(self, circuit_id: str, lease_id: str) -> None:
        """The call was never made: the lease is free for the next one."""
        with self._lock:
            if self._used.get(circuit_id) == lease_id:
                del self._used[circuit_id]

    def on_view(self, view: CircuitView) -> None:
        """A circuit changed."""
        with self._lock:
            if view.passes:
                self._asked.pop(view.circuit_id, None)
                self._used.pop(view.circuit_id, None)
            waiter = self._waiting.get(view.circuit_id)
            ours = any(lease.emitter_id == self.emitter_id for lease in view.leases)
        if waiter is not None and (view.passes or ours) and not waiter.done():
            waiter.set_result(None)

    def forked(self) -> None:
        """In a child of a fork: the requests and leases are the parent's."""
        self._lock = threading.RLock()
        self._waiting.clear()
        self._asked.clear()
        self._used.clear()
