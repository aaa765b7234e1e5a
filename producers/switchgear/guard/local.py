"""The process's own breakers, by tool, user or session, made at first need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from switchgear.breaker import Breaker
from switchgear.breaker.retirement import may_retire
from switchgear.breaker.shelves import MAX_TOOLS, Shelves, circuit_id_of
from switchgear.redact import redact
from switchgear_schemas.circuit import CircuitState
from switchgear_schemas.policy import LOCAL_DEFAULT, BreakerPolicy

LocalPolicies = BreakerPolicy | Mapping[str, BreakerPolicy] | Callable[[str], BreakerPolicy]
"""One policy for all, or by tool name (the rest have the default), or a function such as ``PolicySet.effective``."""


def policy_of(policies: LocalPolicies | None) -> Callable[[str], BreakerPolicy]:
    """The look-up a caller's ``policies`` stand for."""
    if policies is None:
        return lambda _tool: LOCAL_DEFAULT
    if isinstance(policies, BreakerPolicy):
        return lambda _tool: policies
    if isinstance(policies, Mapping):
        named = dict(policies)
        return lambda tool: named.get(tool, LOCAL_DEFAULT)
    return policies


class LocalCircuit:
    """A breaker and the lock around its calls; never held while a user's code runs."""

    __slots__ = ("_shown", "breaker", "last_error", "lock")

    def __init__(self, breaker: Breaker) -> None:
        self.breaker = breaker
        self.last_error: str | None = None
        """Of the last failure that counted, as it was."""
        self._shown: tuple[str, str] | None = None
        self.lock = threading.Lock()

    def shown_error(self) -> str | None:
        """The last error without secrets; redacted once, not at every refusal."""
        error = self.last_error
        if error is None:
            return None
        if self._shown is None or self._shown[0] is not error:
            self._shown = (error, redact(error))
        return self._shown[1]


class LocalBreakers(Shelves[LocalCircuit]):
    """The process's circuits, by the rules of :class:`~switchgear.breaker.shelves.Shelves`, for any number of threads.

    No stream of invented names can make a failing tool forgotten: past ``limit`` a new tool goes unguarded instead, until an
    idle one has made room.

    Args:
        policies: See :data:`LocalPolicies`.
        clock: Monotonic seconds.
        limit: Most tools.
    """

    def __init__(self, policies: LocalPolicies | None, clock: Callable[[], float], *, limit: int = MAX_TOOLS) -> None:
        super().__init__(policy_of(policies), max_tools=limit)
        self._clock = clock
        self._lock = threading.Lock()
        self.circuits: dict[str, LocalCircuit] = {}
        """By tool name, those whose policy has the scope ``tool``: one look-up without a lock. The others are asked for by
        :meth:`get` with whom the call is for."""

    def get(self, tool: str, user_id: str = "", session_id: str | None = None) -> LocalCircuit:
        """The circuit that decides on a call of ``tool``, of a user or session where the policy's scope asks."""
        found = self.circuits.get(tool)
        if found is not None:
            return found
        shelf = self._shelves.get(tool)
        if shelf is not None:
            found = shelf.circuits.get(circuit_id_of(tool, shelf.policy, user_id, session_id or ""))
            if found is not None:
                return found
        with self._lock:  # looked for again: another thread may have made it, or be moving it
            found = self._find(tool, self._clock(), user_id, session_id or "")
            shelf = self._shelves.get(tool)
            if shelf is not None and shelf.policy.scope == "tool":
                self.circuits[tool] = found
            return found

    def not_closed(self) -> dict[str, CircuitState]:
        """Circuit id to state, of the circuits that are not simply closed."""
        with self._lock:
            circuits = list(self)
        return {one.breaker.circuit_id: one.breaker.state for one in circuits if one.breaker.state != "closed"}

    def forked(self) -> None:
        """In a child of a fork: a lock that another thread held would be held for ever."""
        self._lock = threading.Lock()
        for circuit in self:
            circuit.lock = threading.Lock()
        if self._overflow is not None:
            self._overflow.lock = threading.Lock()

    def _hold(self, breaker: Breaker) -> LocalCircuit:
        return LocalCircuit(breaker)

    def _may_retire(self, circuit: LocalCircuit, now: float) -> bool:
        with circuit.lock:
            retires = may_retire(circuit.breaker, now, self._idle_s)
        circuit_id = circuit.breaker.circuit_id
        if retires and self.circuits.get(circuit_id) is circuit:  # a user's circuit may be called as another tool is
            del self.circuits[circuit_id]
        return retires
