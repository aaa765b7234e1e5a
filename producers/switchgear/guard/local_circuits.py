"""The circuits of this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from switchgear.arguments import is_policy, shown
from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind, Transition
from switchgear.breaker.values import LOOKED_AT, MAX_CIRCUITS_PER_TOOL, circuit_id_of, is_split
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection
from switchgear.redaction import redact
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.cause import Cause
from switchgear_schemas.circuit_ids import read_circuit_id, tool_circuit
from switchgear_schemas.enums import CircuitScope, CircuitState, ErrorClass
from switchgear_schemas.plain_policy import LOCAL_TOOLS, PlainPolicy, Policy

if TYPE_CHECKING:
    from switchgear.policies.policy_set import PolicySet
    from switchgear_schemas.policy import BreakerPolicy


log: Final = logging.getLogger("switchgear.guard")
complaints: Final = BoundedLog(log)
MAX_TOOLS: Final = 10_000

LocalPolicies: TypeAlias = "BreakerPolicy | Mapping[str, BreakerPolicy] | Callable[[str], BreakerPolicy] | PolicySet"
"""One policy for all tools, or by tool name (the rest have the default), or a function, or a policy set. Only a policy set has
policies for families, too."""


def policy_of(policies: LocalPolicies | None) -> Callable[[str], Policy]:
    """Return the function from a tool to its policy that ``policies`` stand for.

    If a user's function fails or returns something else, that is logged, and the tool gets the default policy.
    """
    if policies is None:
        return lambda _tool: LOCAL_TOOLS
    if isinstance(policies, Mapping):
        named = dict(policies)
        return lambda tool: named.get(tool, LOCAL_TOOLS)
    of_set: Callable[[str], Policy] | None = getattr(policies, "effective", None)
    if of_set is not None:
        return of_set
    if not callable(policies):
        return lambda _tool: cast("BreakerPolicy", policies)

    def effective(tool: str) -> Policy:
        try:
            found = policies(tool)
            if is_policy(found):
                return found
            error: Exception = TypeError(f"it returned {shown(found)}, not a BreakerPolicy")
        except Exception as raised:  # noqa: BLE001 - a user's function may fail; the call must not
            error = raised
        complaints.warning(f"the function of policies has no policy for {tool!r}, which gets the default policy", error)
        return LOCAL_TOOLS

    return effective


class LocalCircuit:
    """A breaker with the lock around its calls. No user's code runs while the lock is held.

    A signal handler must not call the tool that it interrupts: the breaker may be half-way through a change.
    """

    __slots__ = (
        "_words",
        "breaker",
        "family",
        "include_last_error",
        "last_error",
        "last_error_class",
        "lock",
        "scope",
        "target",
    )

    def __init__(self, breaker: Breaker, family: str | None = None, *, include_last_error: bool = False) -> None:
        self.breaker = breaker
        self.include_last_error = include_last_error
        """Whether the texts of its refusals quote the error."""
        self.family = family
        """Whose circuit it is; None for the circuit of a tool."""
        said = read_circuit_id(breaker.circuit_id)
        self.scope: CircuitScope = said.scope if family is None else "family"
        self.target = said.whose if said.scope == "target" else ""
        """What the calls that it counts are about. Empty unless the tool's policy keeps targets apart."""
        self.last_error: str | None = None
        """Message of the last failure that counted, with its secrets."""
        self.last_error_class: str | None = None
        """Its class."""
        self._words: tuple[Cause | None, str | None, str, str | None] = (None, None, "", None)
        self.reset_lock()

    def reset_lock(self) -> None:
        """Make a new lock. In the child of a fork, another thread of the parent may hold the old one."""
        self.lock = threading.RLock()  # a finalizer that runs while it is held may release a permit

    def try_acquire(self, now: float) -> BreakerPermit | BreakerRejection:
        """Ask the breaker."""
        with self.lock:
            return self.breaker.try_acquire(now)

    def release(self, permit: BreakerPermit, now: float) -> None:
        """Give the breaker's permit back."""
        with self.lock:
            self.breaker.release(permit, now)

    def record(
        self,
        now: float,
        result: Result,
        permit: BreakerPermit | None,
        error: str | None = None,
        error_class: ErrorClass | None = None,
    ) -> None:
        """Record how a call ended. ``error`` and its class are kept if it counts as a failure."""
        with self.lock:
            self.breaker.record(now, result, permit)
            if result.kind is ResultKind.FAILURE:
                self.last_error, self.last_error_class = error, error_class

    def would_refuse(self, now: float) -> bool:
        """Return whether a call would be refused. Takes no probe."""
        with self.lock:
            return self.breaker.would_refuse(now)

    def refusal(self, tool: str, now: float, generation: int | None) -> Rejection | None:
        """Return the refusal of a call while the circuit's wait lasts; None: ask the breaker.

        It needs no lock and changes nothing. The breaker's ``counts`` don't include these refusals; no rule uses them.
        """
        breaker = self.breaker
        until = breaker.open_until
        if until is None or now >= until or breaker.state != "open":
            return None
        cause, error, reason, shown = self._words
        if cause is not breaker.cause or error is not self.last_error:  # here too, because the call is slow
            reason, shown = self.words()
        wait = until - now
        return Rejection(
            tool,
            "open",
            "local",
            reason,
            wait,
            shown,
            None,
            generation,
            self.scope,
            breaker.cause,
            self.family,
            0,
            self.target,
            self.last_error_class,
            self.include_last_error,
        )

    def words(self) -> tuple[str, str | None]:
        """Return the reason for the state, and the last error without secrets. They are made once, not per refusal."""
        cause, error, reason, shown = self._words
        if cause is not self.breaker.cause or error is not self.last_error:
            cause, error = self.breaker.cause, self.last_error
            reason = "" if cause is None else cause.reason or cause.rule
            shown = None if error is None else redact(error)
            self._words = (cause, error, reason, shown)
        return reason, shown


class _ToolCircuits:
    """The circuits of one tool by circuit id. Those that were looked at longest ago come first."""

    __slots__ = ("circuits", "policy")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.circuits: dict[str, LocalCircuit] = {}


class LocalBreakers:
    """The process's circuits by tool, user, session or target, made when they are first needed. Thread-safe.

    Invented names can't make it forget a failing tool. Beyond the limits one more user or target shares its tool's circuit, and the
    calls of one more tool pass uncounted. Idle circuits make room (:meth:`~switchgear.breaker.Breaker.may_retire`). Open,
    half-open, commanded and counting circuits never do.

    ``limit`` is the most tools, ``limit_per_tool`` the most circuits of one tool. ``include_last_error``: the texts of refusals quote
    the tool's last error.
    """

    def __init__(
        self,
        policies: LocalPolicies | None,
        clock: Callable[[], float],
        *,
        limit: int = MAX_TOOLS,
        limit_per_tool: int = MAX_CIRCUITS_PER_TOOL,
        include_last_error: bool = False,
    ) -> None:
        self.policies = policies
        self.include_last_error = include_last_error
        self._policy_of = policy_of(policies)
        self._clock = clock
        self._limit = limit
        self._limit_per_tool = limit_per_tool
        self._lock = threading.RLock()  # the user's function of policies runs while it is held, and may call a tool
        self._tools: dict[str, _ToolCircuits] = {}
        self._uncounted = LocalCircuit(Breaker("", PlainPolicy(mode="disabled"), 0.0))
        self.on_move: Callable[[Transition], None] | None = None
        """Called with every change of a circuit made from here on, with the circuit's lock held."""
        self.on_new_tool: Callable[[str], None] | None = None
        """Called with a tool before its first circuit is made."""
        self.circuits: dict[str, LocalCircuit] = {}
        """By tool name, those whose policy keeps one circuit a tool: one look-up without a lock. For the others use :meth:`get`."""
        call_in_child(self.forked)

    def get(self, tool: str, caller: Caller = NO_CALLER) -> LocalCircuit:
        """Return the circuit that decides on a call: of the caller's target, else of its user or session if the policy's scope says so."""
        found = (None if caller.target else self.circuits.get(tool)) or self.known(tool, caller)
        if found is not None:
            return found
        with self._lock:  # another thread may have made it since
            now = self._clock()
            of_tool = self._tools.get(tool)
            if of_tool is None:
                if len(self._tools) >= self._limit:
                    self._retire_tools(now)
                if len(self._tools) >= self._limit:
                    return self._uncounted
                if self.on_new_tool is not None:
                    self.on_new_tool(tool)
                of_tool = self._tools[tool] = _ToolCircuits(self._policy_of(tool))
            found = self._of_tool(of_tool, tool, _circuit_id(tool, of_tool.policy, caller), now)
            if found.scope == "tool" and not (caller.target or is_split(of_tool.policy)):
                self.circuits[tool] = found
            return found

    def known(self, tool: str, caller: Caller = NO_CALLER) -> LocalCircuit | None:
        """Return the circuit that decides on a call, if there is one already."""
        found = None if caller.target else self.circuits.get(tool)
        if found is not None:
            return found
        of_tool = self._tools.get(tool)
        if of_tool is None:
            return None
        return of_tool.circuits.get(_circuit_id(tool, of_tool.policy, caller))

    def target_rule(self, tool: str) -> str | None:
        """Return the ``target`` of the tool's policy."""
        of_tool = self._tools.get(tool)
        return (self._policy_of(tool) if of_tool is None else of_tool.policy).target

    def all_now(self) -> list[LocalCircuit]:
        """Return every circuit of this moment. Other threads may make more meanwhile."""
        with self._lock:
            return [circuit for of_tool in list(self._tools.values()) for circuit in list(of_tool.circuits.values())]

    def names(self) -> list[str]:
        """Return the names of the tools of this moment."""
        return list(self._tools)

    def of_tool(self, tool: str) -> list[LocalCircuit]:
        """Return the circuits of one tool of this moment."""
        found = self._tools.get(tool)
        return [] if found is None else list(found.circuits.values())

    def not_closed(self) -> dict[str, CircuitState]:
        """Return the state of every circuit that isn't closed, by circuit id."""
        circuits = self.all_now()
        return {one.breaker.circuit_id: one.breaker.state for one in circuits if one.breaker.state != "closed"}

    def forked(self) -> None:
        """In the child of a fork: the parent's threads, which hold locks and make probes, aren't here."""
        self._lock = threading.RLock()
        self._uncounted.reset_lock()
        for circuit in self.all_now():
            circuit.reset_lock()
            circuit.breaker.abandon_probes()

    def _of_tool(self, of_tool: _ToolCircuits, tool: str, circuit_id: str, now: float) -> LocalCircuit:
        circuits = of_tool.circuits
        if circuit_id not in circuits and len(circuits) >= self._limit_per_tool:
            self._retire(of_tool, tool, now)
            if len(circuits) >= self._limit_per_tool:
                circuit_id = tool_circuit(tool)  # the tool's own circuit may be one beyond the limit
        if circuit_id not in circuits:
            breaker = Breaker(circuit_id, of_tool.policy, now)
            breaker.on_move = self.on_move
            circuits[circuit_id] = LocalCircuit(breaker, include_last_error=self.include_last_error)
        return circuits[circuit_id]

    def _retire_tools(self, now: float) -> None:
        for tool in list(islice(self._tools, LOOKED_AT)):
            of_tool = self._tools.pop(tool)
            self._retire(of_tool, tool, now)
            if of_tool.circuits:
                self._tools[tool] = of_tool

    def _retire(self, of_tool: _ToolCircuits, tool: str, now: float) -> None:
        """Look at the circuits that were looked at longest ago. Those that stay move to the end."""
        for circuit_id in list(islice(of_tool.circuits, LOOKED_AT)):
            circuit = of_tool.circuits.pop(circuit_id)
            with circuit.lock:
                retires = circuit.breaker.may_retire(now)
            if not retires:
                of_tool.circuits[circuit_id] = circuit
            elif self.circuits.get(tool) is circuit:
                del self.circuits[tool]


def _circuit_id(tool: str, policy: Policy, caller: Caller) -> str:
    return circuit_id_of(tool, policy, caller.user_id, caller.session_id or "", caller.target, caller.tenant)
