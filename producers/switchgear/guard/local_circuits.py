"""The process's own breakers, by tool, user or session, made at first need."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from switchgear.arguments import is_policy, shown
from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind, Transition
from switchgear.breaker.breaker import may_retire
from switchgear.breaker.policy import PlainPolicy, policy_in_force
from switchgear.breaker.registry import MAX_TOOLS, CircuitsByRecency, circuit_id_of
from switchgear.breaker.states import PASSING
from switchgear.breaker.values import Cause
from switchgear.guard.rejections import Rejection
from switchgear.redaction.redact import redact
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.enums import CircuitState

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


log: Final = logging.getLogger("switchgear.guard")
complaints: Final = BoundedLog(log)

LocalPolicies: TypeAlias = "BreakerPolicy | Mapping[str, BreakerPolicy] | Callable[[str], BreakerPolicy]"
"""One policy for all, or by tool name (the rest have the default), or a function such as ``PolicySet.effective``."""


_DEFAULT: Final = policy_in_force(PlainPolicy(consecutive_failures=5))
"""``LOCAL_DEFAULT``, without waiting for pydantic: who gives no policy needs none of its checks."""


def policy_of(policies: LocalPolicies | None) -> Callable[[str], BreakerPolicy]:
    """The look-up a caller's ``policies`` stand for.

    A function that fails, or returns no policy, is logged, and the tool gets the default one: it must not end the call.
    """
    if policies is None:
        return lambda _tool: _DEFAULT
    if isinstance(policies, Mapping):
        named = dict(policies)
        return lambda tool: named.get(tool, _DEFAULT)
    if callable(policies):
        return _careful(policies)
    return lambda _tool: policies


def _careful(function: Callable[[str], BreakerPolicy]) -> Callable[[str], BreakerPolicy]:
    def effective(tool: str) -> BreakerPolicy:
        subject = f"the function of policies is of no use for {tool!r}, which gets the default policy"
        try:
            found = function(tool)
        except Exception as error:  # noqa: BLE001 - a user's function may fail; the call must not
            complaints.warning(subject, error)
            return _DEFAULT
        if not is_policy(found):
            complaints.warning(subject, TypeError(f"it returned {shown(found)}, not a BreakerPolicy"))
            return _DEFAULT
        return found

    return effective


class LocalCircuit:
    """A breaker and the lock around its calls; never held while a user's code is called.

    Code may run amid a call to the breaker all the same, in the very thread: a finalizer, wherever something is allocated,
    or a signal handler. What that reports waits for the end of the call, and what it asks is answered from the state as it is.
    """

    __slots__ = ("_busy", "_waiting", "_words", "breaker", "last_error", "lock", "retired")

    def __init__(self, breaker: Breaker) -> None:
        self.breaker = breaker
        self.last_error: str | None = None
        """Of the last failure that counted, as it was."""
        self._words: tuple[Cause | None, str | None, str, str | None] = (None, None, "", None)
        self.lock = threading.RLock()
        self._busy = False
        self._waiting: deque[Callable[[], None]] = deque()
        self.retired = False
        """It was forgotten; a call that is still out reports to the one that took its place."""

    def try_acquire(self, now: float) -> BreakerPermit | BreakerRejection:
        """Ask the breaker."""
        with self.lock:
            if self._busy:
                return self._in_passing(now)
            self._busy = True
            try:
                return self.breaker.try_acquire(now)
            finally:
                self._rest()

    def release(self, permit: BreakerPermit, now: float) -> None:
        """Give the breaker's permit back."""
        self._do(lambda: self.breaker.release(permit, now))

    def record(self, now: float, result: Result, permit: BreakerPermit | None, error: str | None = None) -> None:
        """Tell the breaker how a call ended; ``error`` is remembered where it counts as a failure."""

        def recorded() -> None:
            self.breaker.record(now, result, permit)
            if result.kind is ResultKind.FAILURE:
                self.last_error = error

        self._do(recorded)

    def forked(self) -> None:
        """In a child: another thread of the parent may have held the lock."""
        self.lock, self._busy = threading.RLock(), False
        self._waiting.clear()

    def _do(self, work: Callable[[], None]) -> None:
        with self.lock:
            if self._busy:
                self._waiting.append(work)
                return
            self._busy = True
            try:
                work()
            finally:
                self._rest()

    def _rest(self) -> None:
        """With the lock held: what waited comes now, one after the other."""
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._busy = False

    def _in_passing(self, now: float) -> BreakerPermit | BreakerRejection:
        """No probe goes amid another decision; a circuit that lets calls through does so."""
        breaker = self.breaker
        if breaker.state in PASSING:
            return BreakerPermit(breaker.circuit_id, breaker.generation)
        wait = breaker.retry_after_s(now)
        return BreakerRejection(breaker.circuit_id, breaker.state, breaker.generation, wait, breaker.cause)

    def refusal(self, tool: str, now: float, generation: int | None) -> Rejection | None:
        """The refusal of a call at ``now``, where the circuit's wait is not over; else None: ask the breaker.

        Needs no lock and changes nothing, so these refusals are not in the breaker's ``counts``: no rule asks for them.
        """
        breaker = self.breaker
        until = breaker.open_until
        if until is None or now >= until or breaker.state != "open":
            return None
        cause, error, reason, shown = self._words
        if cause is not breaker.cause or error is not self.last_error:
            cause = breaker.cause
            reason, shown = self.words()
        return Rejection(tool, "open", "local", reason, until - now, shown, None, generation, "tool", cause)

    def words(self) -> tuple[str, str | None]:
        """Why it is in its state, and the last error without secrets: put into words once, not at every refusal."""
        cause, error, reason, shown = self._words
        if cause is not self.breaker.cause or error is not self.last_error:
            cause, error = self.breaker.cause, self.last_error
            reason = "" if cause is None else cause.reason or cause.rule
            shown = None if error is None else redact(error)
            self._words = (cause, error, reason, shown)
        return reason, shown


class LocalBreakers(CircuitsByRecency[LocalCircuit]):
    """The process's circuits, by the rules of :class:`~switchgear.breaker.registry.CircuitsByRecency`, for any number of threads.

    No stream of invented names can make a failing tool forgotten: past ``limit`` a new tool goes unguarded instead, until an
    idle one has made room.

    Args:
        policies: See :data:`LocalPolicies`.
        clock: Monotonic seconds.
        limit: Most tools.
    """

    def __init__(self, policies: LocalPolicies | None, clock: Callable[[], float], *, limit: int = MAX_TOOLS) -> None:
        super().__init__(policy_of(policies), max_tools=limit)
        call_in_child(self.forked)
        self._clock = clock
        self._lock = threading.RLock()
        self._busy = False
        """Its holder looks for a circuit, or through all of them; what interrupts that must not change them."""
        self.on_move: Callable[[Transition], None] | None = None
        """Called with every change of state of a circuit made from here on, with the circuit's lock held."""
        self.circuits: dict[str, LocalCircuit] = {}
        """By tool name, those whose policy has the scope ``tool``: one look-up without a lock. The others are asked for by
        :meth:`get` with whom the call is for."""

    def get(self, tool: str, user_id: str = "", session_id: str | None = None) -> LocalCircuit:
        """The circuit that decides on a call of ``tool``, of a user or session where the policy's scope asks."""
        found = self.known(tool, user_id, session_id)
        if found is not None:
            return found
        with self._lock:  # looked for again: another thread may have made it, or be moving it
            if self._busy:  # a signal handler, a finalizer or the function of policies calls a tool amid this
                return self._let_through(self._clock())
            self._busy = True
            try:
                found = self._find(tool, self._clock(), user_id, session_id or "")
                shelf = self._shelves.get(tool)
                if shelf is not None and shelf.policy.scope == "tool":
                    self.circuits[tool] = found
                return found
            finally:
                self._busy = False

    def known(self, tool: str, user_id: str = "", session_id: str | None = None) -> LocalCircuit | None:
        """The same where there is one already: asking makes none."""
        found = self.circuits.get(tool)
        if found is not None:
            return found
        shelf = self._shelves.get(tool)
        return (
            None if shelf is None else shelf.circuits.get(circuit_id_of(tool, shelf.policy, user_id, session_id or ""))
        )

    def all_now(self) -> list[LocalCircuit]:
        """Every circuit there is at this moment, while other threads may make more."""
        with self._lock:
            busy, self._busy = self._busy, True
            try:
                return list(self)
            finally:
                self._busy = busy

    def not_closed(self) -> dict[str, CircuitState]:
        """Circuit id to state, of the circuits that are not simply closed."""
        circuits = self.all_now()
        return {one.breaker.circuit_id: one.breaker.state for one in circuits if one.breaker.state != "closed"}

    def forked(self) -> None:
        """In a child of a fork: a lock that another thread held would be held for ever."""
        self._lock, self._busy = threading.RLock(), False
        for circuit in self:
            circuit.forked()
            circuit.breaker.abandon_probes()  # the parent's threads, which made them, are not here
        if self._overflow is not None:
            self._overflow.forked()

    def _hold(self, breaker: Breaker) -> LocalCircuit:
        breaker.on_move = self.on_move
        return LocalCircuit(breaker)

    def _may_retire(self, circuit: LocalCircuit, now: float) -> bool:
        with circuit.lock:
            retires = circuit.retired = may_retire(circuit.breaker, now, self._idle_s)
        circuit_id = circuit.breaker.circuit_id
        if retires and self.circuits.get(circuit_id) is circuit:  # a user's circuit may be called as another tool is
            del self.circuits[circuit_id]
        return retires
