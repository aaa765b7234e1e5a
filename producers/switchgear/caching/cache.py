"""Keep the last results of tools, for repeated calls and for calls that a circuit refuses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from switchgear import arguments
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog

MOST_CACHES: Final = 1_000
"""The most caches to keep. When more come, the one used longest ago is dropped."""
_log: Final = logging.getLogger("switchgear.cache")


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How long the results of a tool may be used again. Set it per tool: only the author of a tool knows how old they may be.

    Attributes:
        ttl_s: Seconds for which a result is fresh. With 0, results serve only while the circuit refuses.
        stale_for_s: Seconds after that for which a result may serve while the circuit refuses. It is then marked as stale.
        max_entries: The most results to keep. When more come, the one used longest ago is dropped.
        mark_stale: A function that takes a stale result and its age in seconds and returns what to serve, for example with a
            note for the model. Without it, the result is served as it is. If it fails, the result isn't served.

    Raises:
        OptionError: A value is of the wrong type or out of range. The message names the field.
    """

    ttl_s: float = 60.0
    stale_for_s: float = 0.0
    max_entries: int = 256
    mark_stale: Callable[[Any, float], Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        arguments.number("cache: ttl_s", self.ttl_s, most=float("inf"))
        arguments.number("cache: stale_for_s", self.stale_for_s, most=float("inf"))
        arguments.whole("cache: max_entries", self.max_entries)
        if not self.ttl_s and not self.stale_for_s:
            hint = "Set one of them, or leave the cache out."
            raise arguments.OptionError("cache: ttl_s and stale_for_s are both 0.", hint=hint)
        if self.mark_stale is not None:
            arguments.function("cache: mark_stale", self.mark_stale)


class Cached(NamedTuple):
    """A cached result. ``value`` is the very object that was stored: don't change it."""

    value: Any
    age_s: float
    stale: bool
    """It is older than ``ttl_s``, and ``value`` is what ``mark_stale`` returned."""


class ResultCache:
    """The results of one tool, at most ``policy.max_entries``. Thread-safe. It holds no exceptions.

    Args:
        policy: See :class:`CachePolicy`.
        clock: Monotonic seconds.
    """

    def __init__(self, policy: CachePolicy, clock: Callable[[], float]) -> None:
        self.policy = policy
        self._clock = clock
        self._complaints = BoundedLog(_log, clock=clock)
        self._entries = BoundedDict[str, tuple[Any, float]](policy.max_entries)
        self._reset_lock()
        call_in_child(self._reset_lock)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, *, stale: bool = True, tool: str = "a result") -> Cached | None:
        """Return the result under ``key``, or None if there is none that is young enough.

        Args:
            key: The key of the call.
            stale: Return a stale result too, marked.
            tool: The name of the tool, for the log.
        """
        policy = self.policy
        with self._lock:
            if key not in self._entries:
                return None
            value, put_at = self._entries[key]
            age_s = self._clock() - put_at
            if age_s >= policy.ttl_s + policy.stale_for_s:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
        if age_s < policy.ttl_s:
            return Cached(value, age_s, stale=False)
        if not stale:
            return None
        if policy.mark_stale is not None:
            try:
                value = policy.mark_stale(value, age_s)
            except Exception as error:  # noqa: BLE001 - it may fail in any way, and the call must not
                self._complaints.warning(f"mark_stale of {tool} failed, so the stale result is not served", error)
                return None
        return Cached(value, age_s, stale=True)

    def put(self, key: str, value: Any) -> None:
        """Store the result of a successful call, as of now."""
        with self._lock:
            self._entries[key] = (value, self._clock())

    def _reset_lock(self) -> None:
        self._lock = threading.Lock()


def result_caches(clock: Callable[[], float]) -> Callable[[str, CachePolicy], ResultCache]:
    """Return a function that returns the cache of a tool. Two guards with the same tool and policy share it.

    Args:
        clock: Monotonic seconds.
    """
    return lru_cache(MOST_CACHES)(lambda _tool, policy: ResultCache(policy, clock))
