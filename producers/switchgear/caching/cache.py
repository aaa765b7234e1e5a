"""Keep the last results of tools, for repeated calls and for calls that a circuit refuses."""

from __future__ import annotations

import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from switchgear.caching.repeated_calls import DuplicateWatch
from switchgear.caching.single_flight import SingleFlight
from switchgear.numeric import is_number, is_whole
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.errors import SettingsError

log: Final = logging.getLogger("switchgear.cache")


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
        SettingsError: A value is of the wrong type or out of range. The message names the field.
    """

    ttl_s: float = 60.0
    stale_for_s: float = 0.0
    max_entries: int = 256
    mark_stale: Callable[[Any, float], Any] | None = field(
        default=None, hash=False
    )  # a callable object may not be hashable

    def __post_init__(self) -> None:
        for name, value in (("ttl_s", self.ttl_s), ("stale_for_s", self.stale_for_s)):
            if not is_number(value) or not value >= 0:
                hint = "Use its total_seconds()." if hasattr(value, "total_seconds") else ""
                raise SettingsError(f"cache: {name} must be a number of seconds from 0, not {value!r}.", hint=hint)
        if self.ttl_s + self.stale_for_s <= 0:
            raise SettingsError(
                "cache: ttl_s and stale_for_s are both 0.", hint="Set one of them, or leave the cache out."
            )
        if not is_whole(self.max_entries) or self.max_entries < 1:
            raise SettingsError(f"cache: max_entries must be a whole number from 1, not {self.max_entries!r}.")
        mark = self.mark_stale
        if mark is not None and (not callable(mark) or inspect.iscoroutinefunction(mark)):
            raise SettingsError(
                f"cache: mark_stale must be a function of the result and its age in seconds, not {mark!r:.100}.",
                hint="It is called and not awaited: leave out the async." if callable(mark) else "",
            )


@dataclass(frozen=True, slots=True)
class Cached:
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
        self._complaints = BoundedLog(log, clock=clock)
        self._entries: OrderedDict[str, tuple[Any, float]] = OrderedDict()
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
            found = self._entries.get(key)
            if found is None:
                return None
            value, put_at = found
            age_s = max(0.0, self._clock() - put_at)
            if age_s >= policy.ttl_s + policy.stale_for_s:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
        if age_s < policy.ttl_s:
            return Cached(value, age_s, stale=False)
        if not stale:
            return None
        if (
            policy.mark_stale is not None
        ):  # code of the user's: without the lock, and the call must not fail because of it
            try:
                value = policy.mark_stale(value, age_s)
            except Exception as error:  # noqa: BLE001 - it may fail in any way
                self._complaints.warning(f"mark_stale of {tool} failed, so the stale result is not served", error)
                return None
        return Cached(value, age_s, stale=True)

    def put(self, key: str, value: Any) -> None:
        """Store the result of a successful call, as of now."""
        with self._lock:
            self._entries[key] = (value, self._clock())
            self._entries.move_to_end(key)
            while len(self._entries) > self.policy.max_entries:
                self._entries.popitem(last=False)

    def _reset_lock(self) -> None:
        self._lock = threading.Lock()


MOST_CACHES: Final = 1_000
"""The most caches to keep. When more come, the one used longest ago is dropped."""


class Stores:
    """The caches, the counts of repeated calls and the single flights of one client. Thread-safe.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._caches: OrderedDict[tuple[str, CachePolicy], ResultCache] = OrderedDict()
        self.duplicates = DuplicateWatch(clock=clock)
        self.flights = SingleFlight()
        self._reset_lock()
        call_in_child(self._reset_lock)

    def cache(self, tool: str, policy: CachePolicy) -> ResultCache:
        """Return the cache of ``tool``. Two guards with the same tool and policy share it."""
        with self._lock:
            found = self._caches.get((tool, policy))
            if found is None:
                found = self._caches[tool, policy] = ResultCache(policy, self._clock)
                if len(self._caches) > MOST_CACHES:
                    self._caches.popitem(last=False)
            else:
                self._caches.move_to_end((tool, policy))
            return found

    def _reset_lock(self) -> None:
        self._lock = threading.RLock()  # a signal handler may call a tool while its thread holds it
