"""Stores: what the options of a client's guards remember between calls."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from switchgear.cache import CachePolicy, ResultCache
from switchgear.duplicates import DuplicateWatch
from switchgear.fork_safe import ForkSafe
from switchgear.single_flight import SingleFlight

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
