"""The circuits of one owner by tool, user or session. Their number is bounded, whatever names callers invent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from switchgear.breaker.breaker import Breaker
from switchgear.breaker.values import PlainPolicy, policy_in_force

if TYPE_CHECKING:
    from switchgear_schemas.policy import BreakerPolicy


MAX_TOOLS: Final = 10_000
MAX_CIRCUITS_PER_TOOL: Final = 1_000
LOOKED_AT: Final = 8
"""Circuits that an owner looks at for retirement when a new name comes. A look-up stays O(1)."""
C = TypeVar("C")


def circuit_id_of(tool_name: str, policy: BreakerPolicy, user_id: str = "", session_id: str = "") -> str:
    """Return ``tool``, ``tool|user=…`` or ``tool|session=…``. Without the id that the scope needs, return ``tool``."""
    if policy.scope == "user" and user_id:
        return f"{tool_name}|user={user_id}"
    if policy.scope == "session" and session_id:
        return f"{tool_name}|session={session_id}"
    return tool_name


class RecencyIndex(Generic[C]):
    """The circuits of one tool by circuit id. Those that were looked at longest ago come first."""

    __slots__ = ("circuits", "policy")

    def __init__(self, policy: BreakerPolicy) -> None:
        self.policy = policy
        self.circuits: dict[str, C] = {}


class CircuitsByRecency(ABC, Generic[C]):
    """Circuits, made when they are first needed. A subclass defines what it keeps of a circuit.

    A name beyond the limits removes no other: one more user or session shares its tool's circuit, and the calls of one more tool
    pass uncounted. Idle circuits make room (:meth:`~switchgear.breaker.Breaker.may_retire`). Open, half-open, commanded and
    counting circuits never do.

    Args:
        policy_of: Returns the policy of a tool, such as ``PolicySet.effective``.
        max_tools: Most tools with circuits of their own.
        max_circuits_per_tool: Most circuits of one tool.
    """

    def __init__(
        self,
        policy_of: Callable[[str], BreakerPolicy],
        *,
        max_tools: int = MAX_TOOLS,
        max_circuits_per_tool: int = MAX_CIRCUITS_PER_TOOL,
    ) -> None:
        self._policy_of = policy_of
        self._max_tools = max_tools
        self._max_circuits = max_circuits_per_tool
        self._indexes: dict[str, RecencyIndex[C]] = {}
        self._overflow: C | None = None

    def __len__(self) -> int:
        return sum(len(index.circuits) for index in self._indexes.values())

    def __iter__(self) -> Iterator[C]:
        for index in self._indexes.values():
            yield from index.circuits.values()

    @abstractmethod
    def _hold(self, breaker: Breaker) -> C:
        """Return what this owner keeps of a new circuit."""

    @abstractmethod
    def _may_retire(self, circuit: C, now: float) -> bool:
        """Return whether a circuit may be forgotten."""

    def _find(self, tool_name: str, now: float, user_id: str, session_id: str) -> C:
        """Return the circuit that decides on a call. A new name gets a new circuit."""
        index = self._indexes.get(tool_name)
        if index is None:
            if len(self._indexes) >= self._max_tools:
                self._retire_tools(now)
            if len(self._indexes) >= self._max_tools:
                return self._let_through(now)
            index = self._indexes[tool_name] = RecencyIndex(self._policy_of(tool_name))
        circuits = index.circuits
        circuit_id = circuit_id_of(tool_name, index.policy, user_id, session_id)
        if circuit_id not in circuits and len(circuits) >= self._max_circuits:
            self._retire(index, now)
            if len(circuits) >= self._max_circuits:
                circuit_id = tool_name  # the tool's own circuit may be one beyond the limit
        if circuit_id not in circuits:
            circuits[circuit_id] = self._hold(Breaker(circuit_id, index.policy, now))
        return circuits[circuit_id]

    def _let_through(self, now: float) -> C:
        if self._overflow is None:
            self._overflow = self._hold(Breaker("", policy_in_force(PlainPolicy(mode="disabled")), now))
        return self._overflow

    def _retire(self, index: RecencyIndex[C], now: float) -> None:
        """Look at the circuits that were looked at longest ago. Those that stay move to the end."""
        for circuit_id in list(islice(index.circuits, LOOKED_AT)):
            circuit = index.circuits.pop(circuit_id)
            if not self._may_retire(circuit, now):
                index.circuits[circuit_id] = circuit

    def _retire_tools(self, now: float) -> None:
        for tool_name in list(islice(self._indexes, LOOKED_AT)):
            index = self._indexes.pop(tool_name)
            self._retire(index, now)
            if index.circuits:
                self._indexes[tool_name] = index


def candidates(targets: Sequence[str], is_open: Callable[[str], bool], *, max_open_percent: float = 100.0) -> list[str]:
    """Return the targets that may be called, in their order.

    Open ones are left out while they are at most ``max_open_percent`` of all, but always at least one, as with Envoy's
    ``max_ejection_percent``. Beyond that the later targets are kept, although they are open. If no target is left, all are kept: a
    call to a broken tool is no worse than no call (Envoy's panic threshold, Portkey's empty ``healthyTargets``).
    """
    allowed = max(1, int(len(targets) * max_open_percent / 100))
    kept: list[str] = []
    for looked_at, target in enumerate(targets):
        if looked_at - len(kept) >= allowed or not is_open(target):
            kept.append(target)
    return kept or list(targets)
