"""A wall around code that opens its own connections: they lead to addresses that are allowed, or fail.

Such a library resolves names by itself, so a check beforehand would see another address than the one that is connected to. Python
reports each connection before it is made (an audit event, PEP 578), with the address. The wall checks that.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, Final

from switchgear_alerts.outbound import allowed

_EVENTS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_around: ContextVar[Wall | None] = ContextVar("switchgear_alerts_wall", default=None)


class RefusedAddressError(OSError):
    """The wall refuses an address. Libraries treat it as a connection that failed."""


class Wall:
    """Lets connections of its own thread and context through to public addresses only.

    Args:
        host: The host that the configuration names. If it is ``localhost`` or a loopback address, loopback is allowed.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self.refused: str | None = None
        """The last address that was refused."""
        _watch()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Check the connections that this thread makes in the block."""
        token = _around.set(self)
        self.refused = None
        try:
            yield
        finally:
            _around.reset(token)

    def check(self, address: object) -> None:
        """Check where a connection leads.

        Raises:
            RefusedAddressError: To a private address, or to something other than an address of the internet.
        """
        host = address[0] if isinstance(address, tuple) and address else address
        try:
            passes = allowed(ip_address(str(host).partition("%")[0]), self._host, allow_private=False)
        except ValueError:  # a path of a socket on this machine, or a name that the system would resolve unseen
            passes = False
        if not passes:
            self.refused = str(host)
            raise RefusedAddressError(f"{host} is not a public address")


@functools.cache
def _watch() -> None:
    """Begin to see all connections of this process. Python can't end that."""
    sys.addaudithook(_saw)


def _saw(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _EVENTS and (wall := _around.get()) is not None and arguments[1] is not None:
        wall.check(arguments[1])


def walled(function: Callable[..., Any], wall: Wall) -> Callable[..., Any]:
    """Return the function with the wall around each call, in whichever thread that happens."""

    @functools.wraps(function)
    def inside(*args: Any, **named: Any) -> Any:
        with wall.around():
            return function(*args, **named)

    return inside
