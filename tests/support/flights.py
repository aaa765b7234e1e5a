"""Helpers for tests of single flights: waiting until threads and tasks wait for a flight."""

from __future__ import annotations

import threading
from collections.abc import Callable

from switchgear.caching.single_flight import SingleFlight
from tests.support.limits import HAPPEN_S

LIMIT = HAPPEN_S


def in_threads(count: int, work: Callable[[int], object]) -> list[threading.Thread]:
    """Start ``work(number)`` in ``count`` threads."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def ended(threads: list[threading.Thread]) -> None:
    """Wait for all threads."""
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)


def followers(flights: SingleFlight, key: str = "k") -> int:
    """Return the number of threads and tasks that wait for the flight now."""
    flight = flights._flights.get(key)
    if flight is None:
        return 0
    with flight.landed._condition:
        return len(flight.landed._condition._waiters) + len(flight.landed._done_callbacks)
