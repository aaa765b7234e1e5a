"""ResultCache: the last results of one tool, for the calls that a circuit refuses and for repeated ones."""

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
from switchgear.runtime.fork import ForkSafe
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_schemas.errors import SettingsError

log: Final = logging.getLogger("switchgear.cache")


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How long a tool's results may be used again. Opt-in, a tool at a time: only its author knows what may be old.

    Attributes:
        ttl_s: Seconds for which a result is fresh. 0: never, results serve only where the circuit refuses.
        stale_for_s: Seconds after that for which it may still serve where the circuit refuses, marked as stale.
        max_entries: Results kept; the one used longest ago goes first.
        mark_stale: Makes what is served of a stale result and its age in seconds, e.g. adds a note for the model. Without
            it the result is served as it was. A stale result that it fails on is not served.

    Raises:
        SettingsError: naming the field, for a value out of its type or range.
    """

    ttl_s: float = 60.0
    stale_for_s: float = 0.0
    max_entries: int = 256
    mark_stale: Callable[[Any, float], Any] | None = field(
        default=None, hash=False
    )  # an object with __call__ may have none

    def __post_init__(self) -> None:
        for name, value in (("ttl_s", self.ttl_s), ("stale_for_s", self.stale_for_s)):
            if not is_number(value) or not value >= 0:
                hint = "A timedelta has total_seconds()." if hasattr(value, "total_seconds") else ""
                raise SettingsError(f"cache: {name} is a number of seconds from 0, not {value!r}.", hint=hint)
        if self.ttl_s + self.stale_for_s <= 0:
            raise SettingsError("cache: ttl_s and stale_for_s are both 0.", hint="No result would ever be used again.")
        if not is_whole(self.max_entries) or self.max_entries < 1:
            raise SettingsError(f"cache: max_entries is a whole number from 1, not {self.max_entries!r}.")
        mark = self.mark_stale
        if mark is not None and (not callable(mark) or inspect.iscoroutinefunction(mark)):
            raise SettingsError(
                f"cache: mark_stale is a function of the result and its age in seconds, not {mark!r:.100}.",
                hint="It is called and not awaited: leave out the async." if callable(mark) else "",
            )


@dataclass(frozen=True, slots=True)
class Cached:
    """A result found. It is the very object that was put: who reads it must not change it."""

    value: Any
    age_s: float
    stale: bool
    """Past ``ttl_s``: for a refused call only. ``value`` is what ``mark_stale`` made of it."""


class ResultCache(ForkSafe):
    """Thread-safe; bounded by ``policy.max_entries``. Exceptions are never put here.

    Args:
        policy: See :class:`CachePolicy`.
        clock: Monotonic seconds.
    """

    def __init__(self, policy: CachePolicy, clock: Callable[[], float]) -> None:
        super().__init__()
        self.policy = policy
        self._clock = clock
        self._complaints = BoundedLog(log, clock=clock)
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[Any, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, *, stale: bool = True, tool: str = "a result") -> Cached | None:
        """The result under ``key``; None where there is none, or none young enough.

        Args:
            key: Of the call.
            stale: A stale result will do; it is marked for whoever asks.
            tool: Whose results these are, for the log.
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
        if policy.mark_stale is not None:  # a user's code: never under the lock, never a reason for the call to fail
            try:
                value = policy.mark_stale(value, age_s)
            except Exception as error:  # noqa: BLE001 - whatever it is, the call goes on without
                self._complaints.warning(f"mark_stale of {tool} failed, the stale result is not served", error)
                return None
        return Cached(value, age_s, stale=True)

    def put(self, key: str, value: Any) -> None:
        """Remember the result of a call that ended well, as of now."""
        with self._lock:
            self._entries[key] = (value, self._clock())
            self._entries.move_to_end(key)
            while len(self._entries) > self.policy.max_entries:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def forked(self) -> None:
        """In a child of a fork: its own lock; the results are as good here."""
        self._lock = threading.Lock()


MOST_CACHES: Final = 1_000
"""Tools with a cache; the one used longest ago goes first."""


class Stores(ForkSafe):
    """One cache a tool and policy, one watch for duplicates, single flights. Thread-safe.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may call a tool amid any of these
        self._caches: OrderedDict[tuple[str, CachePolicy], ResultCache] = OrderedDict()
        self.duplicates = DuplicateWatch(clock=clock)
        self.flights = SingleFlight()

    def cache(self, tool: str, policy: CachePolicy) -> ResultCache:
        """The cache of ``tool``: two guards with the same tool and policy share it."""
        with self._lock:
            found = self._caches.get((tool, policy))
            if found is None:
                found = self._caches[tool, policy] = ResultCache(policy, self._clock)
                if len(self._caches) > MOST_CACHES:
                    self._caches.popitem(last=False)
            else:
                self._caches.move_to_end((tool, policy))
            return found

    def forked(self) -> None:
        """In a child of a fork: its own lock."""
        self._lock = threading.RLock()
