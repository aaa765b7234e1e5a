"""Registry: the breakers of one owner that calls from one thread, by tool, user or session."""

from __future__ import annotations

from collections.abc import Callable

from switchgear.breaker.breaker import Breaker
from switchgear.breaker.retirement import IDLE_S, STALE_S, may_retire
from switchgear.breaker.shelves import MAX_CIRCUITS_PER_TOOL, MAX_TOOLS, Shelves, circuit_id_of
from switchgear_schemas.policy import BreakerPolicy

__all__ = ["IDLE_S", "MAX_CIRCUITS_PER_TOOL", "MAX_TOOLS", "STALE_S", "Registry", "circuit_id_of", "may_retire"]


class Registry(Shelves[Breaker]):
    """Breakers, made when first asked for and bounded as :class:`~switchgear.breaker.shelves.Shelves` says."""

    def get(self, tool_name: str, now: float, *, user_id: str = "", session_id: str = "") -> Breaker:
        """The breaker that decides on a call of ``tool_name``, on behalf of a user or session where its scope asks."""
        return self._find(tool_name, now, user_id, session_id)

    def set_policies(self, policy_of: Callable[[str], BreakerPolicy], now: float) -> None:
        """Go on under other policies; circuits keep their state and what evidence still means something."""
        self._policy_of = policy_of
        for tool_name, shelf in self._shelves.items():
            policy = policy_of(tool_name)
            if policy != shelf.policy:
                shelf.policy = policy
                for breaker in shelf.circuits.values():
                    breaker.set_policy(policy, now)

    def _hold(self, breaker: Breaker) -> Breaker:
        return breaker

    def _may_retire(self, circuit: Breaker, now: float) -> bool:
        return may_retire(circuit, now, self._idle_s)
