"""Registry: the circuits of one owner by tool, user or session, bounded whatever names callers invent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from switchgear.breaker.breaker import Breaker
from switchgear_schemas.policy import BreakerPolicy

MAX_TOOLS: Final = 10_000
MAX_CIRCUITS_PER_TOOL: Final = 1_000
IDLE_S: Final = 3_600.0
"""A closed circuit without evidence retires when nothing was recorded for this long."""
STALE_S: Final = 86_400.0
"""A closed circuit whose window is empty, but that still holds a run of failures, retires after this."""
LOOKED_AT: Final = 8
"""Circuits that one new name may make the registry look at for retirement: a look-up stays O(1)."""


def circuit_id_of(tool_name: str, policy: BreakerPolicy, user_id: str = "", session_id: str = "") -> str:
    """``tool``, ``tool|user=…`` or ``tool|session=…``; without the id that the scope asks for, ``tool``."""
    if policy.scope == "user" and user_id:
        return f"{tool_name}|user={user_id}"
    if policy.scope == "session" and session_id:
        return f"{tool_name}|session={session_id}"
    return tool_name


class _Shelf(msgspec.Struct):
    policy: BreakerPolicy
    circuits: dict[str, Breaker]


class Registry:
    """Breakers, made when first asked for.

    A name beyond the limits pushes nobody out: a user or session too many shares its tool's circuit, a tool too many is
    let through uncounted. Idle circuits make room; open, half-open, commanded and counting ones never do.

    Args:
        policy_of: The policy of a tool, e.g. ``PolicySet.effective``.
        max_tools: Most tools with circuits of their own.
        max_circuits_per_tool: Most circuits of one tool.
        idle_s: See :data:`IDLE_S`, in seconds.
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
        self._shelves: dict[str, _Shelf] = {}
        self._overflow: Breaker | None = None
        self.retired = 0
        """Circuits that made room."""
        self.overflowed = 0
        """Look-ups that found no room."""

    def __len__(self) -> int:
        return sum(len(shelf.circuits) for shelf in self._shelves.values())

    def __iter__(self) -> Iterator[Breaker]:
        for shelf in self._shelves.values():
            yield from shelf.circuits.values()

    def get(self, tool_name: str, now: float, *, user_id: str = "", session_id: str = "") -> Breaker:
        """The breaker that decides on a call of ``tool_name``, on behalf of a user or session where its scope asks."""
        shelf = self._shelves.get(tool_name)
        if shelf is None:
            shelf = self._new_shelf(tool_name, now)
            if shelf is None:
                return self._let_through(now)
        circuit_id = circuit_id_of(tool_name, shelf.policy, user_id, session_id)
        return shelf.circuits.get(circuit_id) or self._new_circuit(shelf, tool_name, circuit_id, now)

    def set_policies(self, policy_of: Callable[[str], BreakerPolicy], now: float) -> None:
        """Go on under other policies; circuits keep their state and what evidence still means something."""
        self._policy_of = policy_of
        for tool_name, shelf in self._shelves.items():
            policy = policy_of(tool_name)
            if policy != shelf.policy:
                shelf.policy = policy
                for breaker in shelf.circuits.values():
                    breaker.set_policy(policy, now)

    def _new_shelf(self, tool_name: str, now: float) -> _Shelf | None:
        if len(self._shelves) >= self._max_tools:
            self._make_room_for_tool(now)
            if len(self._shelves) >= self._max_tools:
                return None
        shelf = self._shelves[tool_name] = _Shelf(self._policy_of(tool_name), {})
        return shelf

    def _new_circuit(self, shelf: _Shelf, tool_name: str, circuit_id: str, now: float) -> Breaker:
        if len(shelf.circuits) >= self._max_circuits:
            self._retire_some(shelf, now)
            if len(shelf.circuits) >= self._max_circuits:
                self.overflowed += 1
                circuit_id = tool_name
        breaker = shelf.circuits.get(circuit_id)
        if breaker is None:  # the tool's own circuit has room in any case: one beyond the limit
            breaker = shelf.circuits[circuit_id] = Breaker(circuit_id, shelf.policy, now)
        return breaker

    def _let_through(self, now: float) -> Breaker:
        self.overflowed += 1
        if self._overflow is None:
            self._overflow = Breaker("", BreakerPolicy(mode="disabled"), now)
        return self._overflow

    def _retire_some(self, shelf: _Shelf, now: float) -> None:
        """Look at the circuits that were looked at longest ago; those that stay go to the end."""
        for _ in range(min(LOOKED_AT, len(shelf.circuits))):
            circuit_id = next(iter(shelf.circuits))
            breaker = shelf.circuits.pop(circuit_id)
            if self._may_retire(breaker, now):
                self.retired += 1
            else:
                shelf.circuits[circuit_id] = breaker

    def _make_room_for_tool(self, now: float) -> None:
        for _ in range(min(LOOKED_AT, len(self._shelves))):
            tool_name = next(iter(self._shelves))
            shelf = self._shelves.pop(tool_name)
            self._retire_some(shelf, now)
            if shelf.circuits:
                self._shelves[tool_name] = shelf

    def _may_retire(self, breaker: Breaker, now: float) -> bool:
        quiet_s = now - breaker.last_seen
        return quiet_s >= self._idle_s and (breaker.is_idle(now) or (quiet_s >= STALE_S and breaker.is_stale(now)))
