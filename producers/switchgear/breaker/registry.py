"""CircuitsByRecency: the circuits of one owner by tool, user or session, bounded whatever names callers invent."""

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
"""Circuits that one new name may make an owner look at for retirement: a look-up stays O(1)."""
C = TypeVar("C")


def circuit_id_of(tool_name: str, policy: BreakerPolicy, user_id: str = "", session_id: str = "") -> str:
    """``tool``, ``tool|user=…`` or ``tool|session=…``; without the id that the scope asks for, ``tool``."""
    if policy.scope == "user" and user_id:
        return f"{tool_name}|user={user_id}"
    if policy.scope == "session" and session_id:
        return f"{tool_name}|session={session_id}"
    return tool_name


class RecencyIndex(Generic[C]):
    """The circuits of one tool by circuit id, those looked at longest ago first."""

    __slots__ = ("circuits", "policy")

    def __init__(self, policy: BreakerPolicy) -> None:
        self.policy = policy
        self.circuits: dict[str, C] = {}


class CircuitsByRecency(ABC, Generic[C]):
    """Circuits, made when first asked for; a subclass says what a circuit is.

    A name beyond the limits pushes nobody out: a user or session too many shares its tool's circuit, a tool too many is
    let through uncounted. Idle circuits make room (:func:`~switchgear.breaker.breaker.may_retire`); open, half-open,
    commanded and counting ones never do.

    Args:
        policy_of: The policy of a tool, e.g. ``PolicySet.effective``.
        max_tools: Most tools with circuits of their own.
        max_circuits_per_tool: Most circuits of one tool.
        idle_s: See :data:`~switchgear.breaker.breaker.IDLE_S`, in seconds.
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
        self._shelves: dict[str, RecencyIndex[C]] = {}
        self._overflow: C | None = None
        self.retired = 0
        """Circuits that made room."""
        self.overflowed = 0
        """Look-ups that found no room."""

    def __len__(self) -> int:
        return sum(len(shelf.circuits) for shelf in self._shelves.values())

    def __iter__(self) -> Iterator[C]:
        for shelf in self._shelves.values():
            yield from shelf.circuits.values()

    # ---- for the subclass

    @abstractmethod
    def _hold(self, breaker: Breaker) -> C:
        """A new circuit as this owner keeps it."""

    @abstractmethod
    def _may_retire(self, circuit: C, now: float) -> bool:
        """Whether it may be forgotten."""

    def _find(self, tool_name: str, now: float, user_id: str, session_id: str) -> C:
        """The circuit that decides on a call, new where it is."""
        shelf = self._shelves.get(tool_name)
        if shelf is None:
            shelf = self._new_shelf(tool_name, now)
            if shelf is None:
                return self._let_through(now)
        circuit_id = circuit_id_of(tool_name, shelf.policy, user_id, session_id)
        return shelf.circuits.get(circuit_id) or self._new_circuit(shelf, tool_name, circuit_id, now)

    def _new_shelf(self, tool_name: str, now: float) -> RecencyIndex[C] | None:
        if len(self._shelves) >= self._max_tools:
            self._make_room_for_tool(now)
            if len(self._shelves) >= self._max_tools:
                return None
        shelf = self._shelves[tool_name] = RecencyIndex(self._policy_of(tool_name))
        return shelf

    def _new_circuit(self, shelf: RecencyIndex[C], tool_name: str, circuit_id: str, now: float) -> C:
        if len(shelf.circuits) >= self._max_circuits:
            self._retire_some(shelf, now)
            if len(shelf.circuits) >= self._max_circuits:
                self.overflowed += 1
                circuit_id = tool_name
        circuit = shelf.circuits.get(circuit_id)
        if circuit is None:  # the tool's own circuit has room in any case: one beyond the limit
            circuit = shelf.circuits[circuit_id] = self._hold(Breaker(circuit_id, shelf.policy, now))
        return circuit

    def _let_through(self, now: float) -> C:
        self.overflowed += 1
        if self._overflow is None:
            self._overflow = self._hold(Breaker("", policy_in_force(PlainPolicy(mode="disabled")), now))
        return self._overflow

    def _retire_some(self, shelf: RecencyIndex[C], now: float) -> None:
        """Look at the circuits that were looked at longest ago; those that stay go to the end."""
        for _ in range(min(LOOKED_AT, len(shelf.circuits))):
            circuit_id = next(iter(shelf.circuits))
            circuit = shelf.circuits.pop(circuit_id)
            if self._may_retire(circuit, now):
                self.retired += 1
            else:
                shelf.circuits[circuit_id] = circuit

    def _make_room_for_tool(self, now: float) -> None:
        for _ in range(min(LOOKED_AT, len(self._shelves))):
            tool_name = next(iter(self._shelves))
            shelf = self._shelves.pop(tool_name)
            self._retire_some(shelf, now)
            if shelf.circuits:
                self._shelves[tool_name] = shelf


def candidates(targets: Sequence[str], is_open: Callable[[str], bool], *, max_open_percent: float = 100.0) -> list[str]:
    """The targets that may be called, in their order.

    Open ones are left out while they are at most ``max_open_percent`` of all (Envoy's ``max_ejection_percent``, which
    lets one go in any case); beyond it the later targets are kept although they are open. If nothing is left, all are
    kept: calling a broken tool is no worse than calling none (Envoy's panic threshold, Portkey's empty
    ``healthyTargets``).

    Args:
        targets: Names in order of preference.
        is_open: Whether a target's circuit refuses calls.
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
