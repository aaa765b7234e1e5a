"""Limits by client: requests in progress, awaited bodies, and failed logins. Their tables have a bound, however many clients come."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_http.problem import ProblemError

MAX_ADDRESSES: Final = 4096
PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that no limit holds up: their answers never wait for other requests."""
BODY_BYTES: Final = 1_000_000
_BUSY: Final = 429


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one client may ask for.

    Args:
        requests_per_token: Requests in progress with one credential.
        requests_per_address: Requests in progress from one address, with or without a login.
        streams_per_token: Streams of events to clients with one credential. They don't count as requests in progress. It is a share of
            what the server has, so that one client leaves the others theirs.
        body_bytes: Size of a request's body.
        body_pause_s: Longest wait for the next part of a body.
        body_s: Longest time for a whole body.
        failed_logins: Failed logins of one address that are answered at once; later ones wait for :attr:`login_every_s`.
        login_every_s: Seconds in which one more failed login is allowed.
        awaited_per_address: Bodies of requests without a login that are on their way from one address.
        awaited: The same from all addresses.
    """

    requests_per_token: int = 64
    requests_per_address: int = 64
    streams_per_token: int = 10
    body_bytes: int = BODY_BYTES
    body_pause_s: float = 5.0
    body_s: float = 12.0
    failed_logins: int = 20
    login_every_s: float = 3.0
    awaited_per_address: int = 8
    awaited: int = 32


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
        self._full_at = BoundedDict[str, float](MAX_ADDRESSES)  # when an address has its whole burst again

    def __len__(self) -> int:
        return len(self._full_at)

    def count(self, address: str) -> float:
        """Count a failed login. Return how many seconds the client must wait; 0 if it may try again now."""
        now = self._clock()
        network = network_of(address)
        full_at = max(self._full_at.get(network, now), now) + self._every_s
        wait_s = full_at - now - self._burst * self._every_s
        self._full_at[network] = full_at if wait_s <= 0 else full_at - self._every_s  # a refused one costs nothing
        return max(wait_s, 0.0)


class Late(Protocol):
    """A body that is on its way, and can be given up."""

    def give_up(self) -> None:
        """Stop to wait for it."""
        ...


class AwaitedBodies:
    """Bodies that clients without a login have begun to send. One too many ends the one that has been awaited longest.

    Anyone can send such a request and then nothing more. So a full table makes room instead of refusing: a login whose body comes
    with its header always gets through. Of one address, its own oldest body goes; of all, the oldest of the address with the most.

    Args:
        most_per_address: Bodies of one address.
        most: Bodies of all addresses.
    """

    def __init__(self, most_per_address: int, most: int) -> None:
        self._most_per_address = most_per_address
        self._most = most
        self._bodies: dict[str, dict[Late, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._bodies.values()))

    @contextmanager
    def waiting(self, body: Late, address: str) -> Iterator[None]:
        """Count a body while the block runs."""
        network = network_of(address)
        if len(self._bodies.get(network, ())) >= self._most_per_address:
            self._make_room(network)
        elif len(self) >= self._most:
            self._make_room(max(self._bodies, key=lambda each: len(self._bodies[each])))
        self._bodies.setdefault(network, {})[body] = None
        try:
            yield
        finally:
            self._forget(network, body)

    def _make_room(self, network: str) -> None:
        oldest = next(iter(self._bodies[network]))
        self._forget(network, oldest)
        oldest.give_up()

    def _forget(self, network: str, body: Late) -> None:
        of_network = self._bodies.get(network, {})
        of_network.pop(body, None)
        if not of_network:
            self._bodies.pop(network, None)


def network_of(address: str) -> str:
    """Return the address, or for IPv6 the /64 that one host has."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))
