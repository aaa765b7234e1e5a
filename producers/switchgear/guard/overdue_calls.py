"""The calls that are under way: who is told when one is overdue."""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import msgspec

from switchgear.runtime.fork import call_in_child

if TYPE_CHECKING:
    from switchgear.guard.local_circuits import LocalCircuit

LOOK_EVERY_S: Final = 1.0
"""The background thread looks at least so often."""
_SPARE: Final = 1_000
"""Entries of calls that have ended, before they are thrown away."""


class Wait(msgspec.Struct):
    """How long the caller of a call waits for the tool, and after how long that is too long.

    Attributes:
        since: When it began to wait, in monotonic seconds. None while it doesn't: between two items of a stream, before it awaits a
            result that it has, and after the call.
        local_ms: After how long the call is overdue for circuits of this process. Infinite if no rule counts that, or they know.
        fleet_ms: The same for the fleet.
        local_overdue_ms: How long it had waited when the circuits of this process were told. None before.
        fleet_overdue_ms: The same for the fleet.
        queued: Whether there is an entry that will come up.
    """

    since: float | None
    local_ms: float
    fleet_ms: float
    local_overdue_ms: float | None = None
    fleet_overdue_ms: float | None = None
    queued: bool = False

    def due_at(self) -> float:
        """Return when somebody must be told, in monotonic seconds. Infinite: never, as things are."""
        return math.inf if self.since is None else self.since + min(self.local_ms, self.fleet_ms) / 1000

    def tell(self, now: float) -> float:
        """Note that those for whom the call is overdue are told now. Return how many milliseconds its caller has waited."""
        assert self.since is not None  # else it is not due
        ran_ms = max((now - self.since) * 1000, min(self.local_ms, self.fleet_ms))
        if ran_ms >= self.local_ms:
            self.local_ms, self.local_overdue_ms = math.inf, ran_ms
        if ran_ms >= self.fleet_ms:
            self.fleet_ms, self.fleet_overdue_ms = math.inf, ran_ms
        return ran_ms


Told = tuple[float | None, float | None]
"""How long a call had run when the circuits of this process, and the fleet, were told that it is overdue. None: they weren't."""
NOT_TOLD: Final[Told] = (None, None)


class Watched(Protocol):
    """The permit of a call, as far as it is watched."""

    started: float
    reported: bool
    wait: Wait | None

    def watch(self, wait: Wait) -> None:
        """Keep ``wait``."""


P = TypeVar("P", bound=Watched)


class OverdueCalls(Generic[P]):
    """The calls under way whose lateness counts for some circuit, the next one to be overdue first. Thread-safe.

    A circuit of this process is told when somebody asks a circuit (:meth:`look`): nobody can see it earlier. The others of a fleet
    can, so its clients also look in their background threads (:meth:`run`). A call that is forgotten is never overdue.

    Args:
        tell_circuits: Tells the circuits of this process that the call of a permit goes on at some instant, after some milliseconds.
        tell_fleet: Tells the fleet that it goes on after some milliseconds. None without a fleet.
    """

    def __init__(
        self,
        tell_circuits: Callable[[P, float, float], None],
        tell_fleet: Callable[[P, float], None] | None = None,
    ) -> None:
        self._tell_circuits = tell_circuits
        self._tell_fleet = tell_fleet
        self._numbers = count()
        self.forked()
        call_in_child(self.forked)

    def forked(self) -> None:
        """Start, also in the child of a fork: the calls under way are the parent's."""
        self._lock = threading.RLock()  # a finalizer that runs while it is held may end a call
        self._heap: list[tuple[float, int, weakref.ref[P]]] = []
        """When each call is due, a number that no other entry has, and its permit."""
        self._most = _SPARE
        self.next_due = math.inf
        """When :meth:`look` has something to do. You may read it without asking."""
        self._wakes_at = -math.inf
        """When the background thread looks next. What is due earlier wakes it."""
        self._wake: Callable[[], object] = _nobody

    def begin(self, permit: P, *circuits: LocalCircuit | None, fleet_ms: float = math.inf) -> None:
        """Watch a call that begins, if that counts anywhere.

        Its circuits of this process are told once, by the least of their limits. The fleet is told by its own limit, and by theirs
        while it has none.

        Args:
            permit: The call's.
            circuits: Those of this process that count the call.
            fleet_ms: After how long the call is overdue for the fleet, as far as its records say. Infinite if they don't.
        """
        local_ms = min((_limit_ms(each, fleet_ms) for each in circuits if each is not None), default=math.inf)
        if self._tell_fleet is None:
            fleet_ms = math.inf
        elif fleet_ms == math.inf:
            fleet_ms = local_ms
        if min(local_ms, fleet_ms) < math.inf:
            wait = Wait(permit.started, local_ms, fleet_ms)
            permit.watch(wait)
            self._enter(permit, wait)

    def rest(self, permit: P) -> None:
        """Note that the caller does not wait for the tool until :meth:`resume`."""
        if permit.wait is not None:
            with self._lock:
                permit.wait.since = None

    def resume(self, permit: P, now: float) -> None:
        """Note that the caller waits for the tool again, from ``now`` on."""
        wait = permit.wait
        if wait is not None:
            with self._lock:
                wait.since = now
                if not wait.queued and wait.due_at() < math.inf:
                    self._enter(permit, wait)

    def end(self, wait: Wait) -> Told:
        """Note that a call has ended. Return who was told of it, and when."""
        with self._lock:
            wait.since = None
            return wait.local_overdue_ms, wait.fleet_overdue_ms

    def look(self, now: float) -> None:
        """Tell those for whom it counts of each call that is overdue."""
        if now < self.next_due:
            return
        late: list[tuple[P, Wait, float]] = []
        with self._lock:
            heap = self._heap
            while heap and heap[0][0] <= now:
                permit = heappop(heap)[2]()
                wait = None if permit is None or permit.reported else permit.wait
                if permit is None or wait is None:
                    continue
                wait.queued = False
                if wait.due_at() <= now:
                    late.append((permit, wait, wait.tell(now)))
                if wait.due_at() < math.inf:
                    self._enter(permit, wait)
            self.next_due = heap[0][0] if heap else math.inf
        for permit, wait, ran_ms in late:  # without the lock: circuits and the emitter have their own
            if wait.local_overdue_ms == ran_ms:
                self._tell_circuits(permit, now, ran_ms)
            if wait.fleet_overdue_ms == ran_ms and self._tell_fleet is not None:
                self._tell_fleet(permit, ran_ms)

    async def run(self, clock: Callable[[], float]) -> None:
        """Look whenever a call is overdue, by a clock of monotonic seconds, until cancelled."""
        import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the next one looks
                loop.call_soon_threadsafe(woken.set)

        self._wake = wake
        while True:
            woken.clear()
            self._wakes_at = math.inf  # what begins from here on wakes, until it is known when to look next
            now = clock()
            self.look(now)
            self._wakes_at = min(self.next_due, now + LOOK_EVERY_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wakes_at - now):
                    await woken.wait()

    def _enter(self, permit: P, wait: Wait) -> None:
        due = wait.due_at()
        with self._lock:
            wait.queued = True
            heappush(self._heap, (due, next(self._numbers), weakref.ref(permit)))
            if len(self._heap) > self._most:
                self._throw_away()
            self.next_due = min(self.next_due, due)
            wakes = due < self._wakes_at
        if wakes:
            self._wake()

    def _throw_away(self) -> None:
        """Forget the calls that have ended. What remains at most doubles until the next time, so an entry costs the same on average."""
        self._heap[:] = [entry for entry in self._heap if (permit := entry[2]()) is not None and not permit.reported]
        heapify(self._heap)
        self._most = 2 * len(self._heap) + _SPARE


def _limit_ms(circuit: LocalCircuit, fleet_ms: float) -> float:
    """Return after how many milliseconds a call is overdue for a circuit of this process.

    That is its own threshold. With a rate of slow calls alone it is what the fleet has learned, but five seconds at least.
    """
    breaker = circuit.breaker
    if breaker.policy.slow_call_rate_threshold is None or breaker.policy.slow_call_duration_threshold_ms is not None:
        return breaker.late_ms
    return breaker.late_ms if fleet_ms == math.inf else max(breaker.late_ms, fleet_ms)


def _nobody() -> None:
    """Wake no thread: none looks."""
