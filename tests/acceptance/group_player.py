"""The player of ``group`` scenarios: a route with several targets, each with its own circuit."""

from __future__ import annotations

from typing import Any

from switchgear.breaker import Breaker
from switchgear.fallback import candidates
from switchgear_schemas.policy import BreakerPolicy

ACTION_KEYS = {"t", "op", "target", "note"}


class GroupPlayer:
    """One breaker per target."""

    def __init__(self, config: dict[str, Any]) -> None:
        unknown = set(config) - {"targets", "max_open_percent", "max_ejection_percent", "open_s"}
        assert not unknown, f"the adapter does not know the config key(s) {sorted(unknown)}"
        policy = BreakerPolicy(wait_duration_in_open_state_s=config.get("open_s", 600))
        self.breakers = {target: Breaker(target, policy, 0.0) for target in config["targets"]}
        self.max_open_percent = config.get("max_open_percent", config.get("max_ejection_percent", 100))

    def play(self, step: dict[str, Any]) -> None:
        now = float(step["t"])
        operation = step["op"]
        if operation != "check":
            breaker = self.breakers[step["target"]]
            state = {"open": "open", "trip": "open", "close": "closed", "reset": "closed"}[operation]
            breaker.transition_to(state, now, actor="scenario")
        for key, expected in step.items():
            if key in ACTION_KEYS:
                continue
            if key == "state":
                assert self.breakers[step["target"]].state == expected
                continue
            targets = list(self.breakers)
            if key in ("ejected", "left_out"):
                kept = candidates(targets, self._is_open, max_open_percent=self.max_open_percent)
                assert (step["target"] not in kept) == expected
                continue
            assert key == "candidates", f"the adapter does not know the expectation {key}"
            assert candidates(targets, self._is_open, max_open_percent=self.max_open_percent) == expected

    def _is_open(self, target: str) -> bool:
        return self.breakers[target].state == "open"
