"""Requests for probes, and the leases that answer them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from switchgear.follower.view import CircuitView
from switchgear.runtime.fork import call_in_child

ASK_AGAIN_S: Final = 1.0
"""Wait after an unanswered request. Until then calls are refused at once."""


@dataclass(slots=True)
class _Request:
    version: int
    first: float
    last: float


class ProbeCoordinator:
    """Sends one request at a time for each circuit, and hands out each lease once. Thread-safe.

    Args:
        silence_s: Unanswered requests for so long mean that the circuit has no owner.
        clock: Monotonic seconds.
    """

    def __init__(self, *, silence_s: float, clock: Callable[[], float]) -> None:
        self._silence_s = silence_s
        self._clock = clock
        self._waiting: dict[str, Future[None]] = {}
        self._requests: dict[str, _Request] = {}
        self._used: dict[str, str] = {}
        self.forked()
        call_in_child(self.forked)

    def ask(self, view: CircuitView) -> Future[None] | None:
        """Register a request. Its future is done when the circuit passes or leases this process a probe.

        Returns:
            None if another call asks now, or has just asked: refuse this one.
        """
        with self._lock:
            now = self._clock()
            known = self._requests.get(view.circuit_id)
            if view.circuit_id in self._waiting:
                return None
            if known is None or known.version != view.version:
                self._requests[view.circuit_id] = _Request(view.version, now, now)
            elif now < known.last + ASK_AGAIN_S:
                return None
            else:
                known.last = now
            waiter = self._waiting[view.circuit_id] = Future()
            return waiter

    def answered(self, circuit_id: str) -> None:
        """Note that the call which asked no longer waits."""
        with self._lock:
            self._waiting.pop(circuit_id, None)

    def silent(self, view: CircuitView) -> bool:
        """Return whether requests about this very version were unanswered for too long: the circuit has no owner."""
        known = self._requests.get(view.circuit_id)
        return known is not None and known.version == view.version and known.last - known.first >= self._silence_s

    def unanswered(self, views: Mapping[str, CircuitView]) -> dict[str, float]:
        """Return the seconds since the first request, by circuit, where repeated requests got no answer."""
        with self._lock:
            now = self._clock()
            return {
                circuit_id: now - known.first
                for circuit_id, known in self._requests.items()
                if known.last > known.first and (view := views.get(circuit_id)) and view.version == known.version
            }

    def take(self, circuit_id: str, lease_id: str) -> bool:
        """Use a lease for a call. Return False if another call of this process has it."""
        with self._lock:
            if self._used.get(circuit_id) == lease_id:
                return False
            self._used[circuit_id] = lease_id
            return True

    def give_back(self, circuit_id: str, lease_id: str) -> None:
        """Free a lease for the next call, because its call wasn't made."""
        with self._lock:
            if self._used.get(circuit_id) == lease_id:
                del self._used[circuit_id]

    def on_view(self, view: CircuitView, emitter_id: str) -> None:
        """Take note of a circuit's new record, in the process ``emitter_id``."""
        with self._lock:
            if view.passes:
                self._requests.pop(view.circuit_id, None)
                self._used.pop(view.circuit_id, None)
            waiter = self._waiting.get(view.circuit_id)
        ours = any(lease.emitter_id == emitter_id for lease in view.leases)
        if waiter is not None and (view.passes or ours) and not waiter.done():
            waiter.set_result(None)

    def forked(self) -> None:
        """Start, also in the child of a fork: requests and leases are the parent's."""
        self._lock = threading.RLock()  # a finalizer that runs while it is held may release a permit
        self._waiting.clear()
        self._requests.clear()
        self._used.clear()
