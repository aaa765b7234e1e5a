"""Limits by client: requests in progress, and failed logins. Their tables have a bound, however many clients come."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from switchgear_access.problem import ProblemError

MAX_ADDRESSES: Final = 4096
_BUSY: Final = 429


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one client may ask for.

    Args:
        requests_per_token: Requests in progress with one credential.
        requests_per_address: Requests in progress from one address.
        streams_per_token: Streams of events to clients with one credential. They don't count as requests in progress. It is a share of
            what the server has, so that one client leaves the others theirs.
        body_bytes: Size of a request's body.
        body_pause_s: Longest wait for the next part of a body.
        body_s: Longest time for a whole body.
        failed_logins: Failed logins of one address that are answered at once; later ones wait for :attr:`login_every_s`.
        login_every_s: Seconds in which one more failed login is allowed.
    """

    requests_per_token: int = 64
    requests_per_address: int = 64
    streams_per_token: int = 10
    body_bytes: int = 1_000_000
    body_pause_s: float = 5.0
    body_s: float = 12.0
    failed_logins: int = 20
    login_every_s: float = 3.0


class InProgress:
    """Counts the requests in progress by a key. A key without requests needs no memory.

    Args:
        most: Requests for one key.
        what: What a key is, for the answer.
        whats: What it has so many of, for the answer.
    """

    def __init__(self, most: int, what: str, whats: str = "requests in progress") -> None:
        self._most = most
        self._what = what
        self._whats = whats
        self._running: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._running)

    @contextmanager
    def request(self, key: str) -> Iterator[None]:
        """Count a request while the block runs.

        Raises:
            ProblemError: The key has as many as it may have.
        """
        if self._running[key] >= self._most:
            raise ProblemError(
                _BUSY,
                f"This {self._what} has {self._most} {self._whats}.",
                "Wait until one has ended.",
                {"Retry-After": "1"},
            )
        self._running[key] += 1
        try:
            yield
        finally:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]


class FailedLogins:
    """Limits how many failed logins of one address are answered. A valid token is never refused because of another's failures.

    A token can't be guessed at any rate. The limit keeps a client with an old token from asking as fast as it can.

    Args:
        burst: Failures that are answered at once.
        every_s: Seconds in which one more is allowed.
        clock: For tests.
    """

    def __init__(self, burst: int, every_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._every_s = every_s
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when an address has its whole burst again

    def __len__(self) -> int:
        return len(self._full_at)

    def count(self, address: str) -> float:
        """Count a failed login. Return how many seconds the client must wait; 0 if it may try again now."""
        now = self._clock()
        network = _network(address)
        full_at = max(self._full_at.pop(network, now), now) + self._every_s
        wait_s = full_at - now - self._burst * self._every_s
        self._full_at[network] = full_at if wait_s <= 0 else full_at - self._every_s  # a refused one costs nothing
        if len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)
        return max(wait_s, 0.0)


def _network(address: str) -> str:
    """Return the address, or for IPv6 the /64 that one host has."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))
