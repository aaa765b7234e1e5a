"""The cooldown of LiteLLM's router, as a rule of its own: the router routes model calls, and doesn't guard tools.

Source: BerriAI/litellm 1.110.2. ``litellm/router_utils/cooldown_handlers.py``: ``_is_cooldown_required`` and the case without
``allowed_fails`` of ``_should_cooldown_deployment``, for a deployment that has siblings (a single one is never cooled by its error rate).
``router_utils/router_callbacks/track_deployment_metrics.py``: counts of one process, kept for 60 s from the first of each.
``router_utils/fallback_event_handlers.py``: a Retry-After is the cooldown's length. ``constants.py``: the thresholds.
Pull request 40025: a process reads the shared cooldowns from Redis once a second at most.

While a deployment is cooled the router takes another one. Here that is a refusal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.place import Contender, Place

FAILED_SHARE: Final = 0.5
"""DEFAULT_FAILURE_THRESHOLD_PERCENT."""
MINIMUM_REQUESTS: Final = 5
"""DEFAULT_FAILURE_THRESHOLD_MINIMUM_REQUESTS."""
MINUTE_S: Final = 60.0
READ_EVERY_S: Final = 1.0
"""DEFAULT_COOLDOWN_REDIS_READ_INTERVAL_SECONDS."""


class CooledError(Exception):
    """The deployment is in its cooldown."""


class _Count:
    """A counter of the router's memory. It starts over 60 s after its first increment."""

    def __init__(self) -> None:
        self._value = 0
        self._ends = 0.0

    def add(self, now: float) -> None:
        if now > self._ends:
            self._value, self._ends = 0, now + MINUTE_S
        self._value += 1

    def at(self, now: float) -> int:
        return 0 if now > self._ends else self._value


class CooldownRule:
    """Which failures cool a deployment, by the counts of one process."""

    def __init__(self) -> None:
        self._successes = _Count()
        self._failures = _Count()

    def succeeded(self, now: float) -> None:
        """Count a success."""
        self._successes.add(now)

    def failed(self, now: float, status: int) -> bool:
        """Count a failure with its HTTP status, and return whether it cools the deployment."""
        self._failures.add(now)
        if 400 <= status < 500 and status not in {401, 402, 404, 408, 429}:
            return False
        if status == 429:
            return True
        failures = self._failures.at(now)
        requests = failures + self._successes.at(now)
        if failures > FAILED_SHARE * requests and requests >= MINIMUM_REQUESTS:
            return True
        return status < 500 and status not in {408, 409}  # the router doesn't retry these


def guards(place: Place) -> Callable[[str], Guard]:
    """Return a rule for each tool. Its cooldown is a key in Redis that expires."""
    now = time.monotonic if place.world is None else place.world.now
    wait_s = float(place.timing.wait_s)

    def guard(tool: str) -> Guard:
        client, key, rule = place.redis(), f"{place.prefix}{tool}:cooldown", CooldownRule()
        cooled_until = read_at = float("-inf")

        def refuse() -> None:
            nonlocal cooled_until, read_at
            at = now()
            if at >= cooled_until and at - read_at >= READ_EVERY_S:
                read_at = at
                value = client.get(key)
                if value is not None:
                    cooled_until = at + float(value) - _wall(place)
            if now() < cooled_until:
                raise CooledError

        def call(function: Callable[[], Any]) -> Any:
            nonlocal cooled_until
            refuse()
            try:
                result = function()
            except Exception as error:
                status = 408 if isinstance(error, TimeoutError) else getattr(error, "status_code", 500)
                if rule.failed(now(), status):
                    asked = getattr(error, "retry_after", None)
                    length = wait_s if asked is None else float(int(asked))
                    if length > 0:
                        client.set(key, _wall(place) + length, px=round(length * 1000))
                        cooled_until = max(cooled_until, now() + length)
                raise
            rule.succeeded(now())
            return result

        return call

    return guard


def _wall(place: Place) -> float:
    return time.time() if place.world is None else place.world.wall()


CONTENDER = Contender(
    name="LiteLLM-style cooldown",
    distribution=None,
    shares="cooldowns, read once a second; counts are of each process",
    note="More than half of at least five calls of a process in a minute failed; a 401 or 429 at once. No probes: all go on after the wait.",
    refusals=(CooledError,),
    guards=guards,
    needs="redis",
)
