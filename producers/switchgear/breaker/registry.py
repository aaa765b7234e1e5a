"""The circuits of one owner by tool, user or session. Their number is bounded, whatever names callers invent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from switchgear.breaker.breaker import IDLE_S, Breaker
from switchgear.breaker.policy import PlainPolicy, policy_in_force

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
    pass uncounted. Idle circuits make room (:func:`~switchgear.breaker.breaker.may_retire`). Open, half-open, commanded and
    counting circuits never do.

    Args:
        policy_of: Returns the policy of a tool, such as ``PolicySet.effective``.
        max_tools: Most tools with circuits of their own.
        max_circuits_per_tool: Most circuits of one tool.
        idle_s: Seconds, see :data:`~switchgear.breaker.breaker.IDLE_S`.
    """

    def __init__(
        self,
        policy_of: Callable[[str], BreakerPolicy],
        *,
        max_tools: int = MAX_TOOLS,
        max_circuits_per_tool: int = MAX_CIRCUITS_PER_TOOL,
        idle_s: float = IDLE_S,
    ) -> None:
        self._policy_of = policy_of
        self._max_tools = max_tools
        self._max_circuits = max_circuits_per_tool
        self._idle_s = idle_s
        self._indexes: dict[str, RecencyIndex[C]] = {}
        self._overflow: C | None = None
        self.retired = 0
        """Circuits that retired."""
        self.overflowed = 0
        """Look-ups that found no room."""

    def __len__(self) -> int:
        return sum(len(index.circuits) for index in self._indexes.values())

    def __iter__(self) -> Iterator[C]:
        for index in self._indexes.values():
            yield from index.circuits.values()

    # ---- for the subclass

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
            index = self._new_index(tool_name, now)
            if index is None:
                return self._let_through(now)
        circuit_id = circuit_id_of(tool_name, index.policy, user_id, session_id)
        return index.circuits.get(circuit_id) or self._new_circuit(index, tool_name, circuit_id, now)

    def _new_index(self, tool_name: str, now: float) -> RecencyIndex[C] | None:
        if len(self._indexes) >= self._max_tools:
            self._make_room_for_tool(now)
            if len(self._indexes) >= self._max_tools:
                return None
        index = self._indexes[tool_name] = RecencyIndex(self._policy_of(tool_name))
        return index

    def _new_circuit(self, index: RecencyIndex[C], tool_name: str, circuit_id: str, now: float) -> C:
        if len(index.circuits) >= self._max_circuits:
            self._retire_some(index, now)
            if len(index.circuits) >= self._max_circuits:
                self.overflowed += 1
                circuit_id = tool_name
        circuit = index.circuits.get(circuit_id)
        if circuit is None:  # the tool's own circuit may be one beyond the limit
            circuit = index.circuits[circuit_id] = self._hold(Breaker(circuit_id, index.policy, now))
        return circuit

    def _let_through(self, now: float) -> C:
        self.overflowed += 1
        if self._overflow is None:
            self._overflow = self._hold(Breaker("", policy_in_force(PlainPolicy(mode="disabled")), now))
        return self._overflow

    def _retire_some(self, index: RecencyIndex[C], now: float) -> None:
        """Look at the circuits that were looked at longest ago. Those that stay move to the end."""
        for _ in range(min(LOOKED_AT, len(index.circuits))):
            circuit_id = next(iter(index.circuits))
            circuit = index.circuits.pop(circuit_id)
            if self._may_retire(circuit, now):
                self.retired += 1
            else:
                index.circuits[circuit_id] = circuit

    def _make_room_for_tool(self, now: float) -> None:
        for _ in range(min(LOOKED_AT, len(self._indexes))):
            tool_name = next(iter(self._indexes))
            index = self._indexes.pop(tool_name)
            self._retire_some(index, now)
            if index.circuits:
                self._indexes[tool_name] = index


def candidates(targets: Sequence[str], is_open: Callable[[str], bool], *, max_open_percent: float = 100.0) -> list[str]:
    """Return the targets that may be called, in their order.

    Open ones are left out while they are at most ``max_open_percent`` of all, but always at least one, as with Envoy's
    ``max_ejection_percent``. Beyond that the later targets are kept, although they are open. If no target is left, all are kept: a
    call to a broken tool is no worse than no call (Envoy's panic threshold, Portkey's empty ``healthyTargets``).

    Args:
        targets: Names in order of preference.
        is_open: Returns whether a target's circuit refuses calls.
        max_open_percent: Largest share of the targets that may be left out, in percent.
    """
    allowed = max(1, int(len(targets) * max_open_percent / 100))
    kept: list[str] = []
    left_out = 0
    for target in targets:
        if left_out < allowed and is_open(target):
            left_out += 1
        else:
            kept.append(target)
    return kept or list(targets)
