"""The process's own breakers, one a tool, made at first need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from switchgear.breaker import Breaker
from switchgear.redact import redact
from switchgear_schemas.policy import LOCAL_DEFAULT, BreakerPolicy

LocalPolicies = BreakerPolicy | Mapping[str, BreakerPolicy] | Callable[[str], BreakerPolicy]
"""One policy for all, or by tool name (the rest have the default), or a function such as ``PolicySet.effective``."""

MAX_TOOLS: Final = 10_000


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


class LocalBreakers:
    """At most ``limit`` breakers.

    Past it those without evidence go first. One that is open or counting is never given up, so that no stream of invented
    names can make a failing tool forgotten: the new name goes unguarded instead.
    """

    def __init__(self, policies: LocalPolicies | None, clock: Callable[[], float], *, limit: int = MAX_TOOLS) -> None:
        self._policy_of = policy_of(policies)
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self.circuits: dict[str, LocalCircuit] = {}

    def get(self, tool: str) -> LocalCircuit:
        """The tool's breaker."""
        found = self.circuits.get(tool)
        return found if found is not None else self._make(tool)

    def forked(self) -> None:
        """In a child of a fork: a lock that another thread held would be held for ever."""
        self._lock = threading.Lock()
        for circuit in self.circuits.values():
            circuit.lock = threading.Lock()

    def _make(self, tool: str) -> LocalCircuit:
        with self._lock:
            found = self.circuits.get(tool)
            if found is not None:
                return found
            now = self._clock()
            made = LocalCircuit(Breaker(tool, self._policy_of(tool), now))
            if len(self.circuits) >= self._limit:
                self._retire(now)
            if len(self.circuits) < self._limit:
                self.circuits[tool] = made
            return made

    def _retire(self, now: float) -> None:
        for tool, circuit in list(self.circuits.items()):
            with circuit.lock:
                idle = circuit.breaker.state == "closed" and not circuit.breaker.counts(now).calls
                idle = idle and not circuit.breaker.counts(now).consecutive_failures
            if idle:
                del self.circuits[tool]
