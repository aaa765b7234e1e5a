"""Find TCP ports of 127.0.0.1, and hold them: a port is never chosen before it is held."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Final

from switchgear_schemas.errors import SwitchgearError

HOST: Final = "127.0.0.1"
STEP: Final = 10
"""From a default that is in use to the next one: so the ports of one system stay apart from those of another component."""
_TRIES: Final = 200
_TAKEN: Final = {errno.EADDRINUSE, errno.EACCES}
_BACKLOG: Final = 512


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    try:
        _bound(socket.SOCK_STREAM, port).close()
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def any_free_port() -> int:
    """Return a port that is free now, chosen by the kernel."""
    return any_free_ports(1)[0]


def any_free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that are free now. Calls one after the other may get the same port twice."""
    with ExitStack() as held:
        listeners = [held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)]
        for listener in listeners:
            listener.bind((HOST, 0))
        return [port_of(listener) for listener in listeners]


def port_of(held: socket.socket) -> int:
    """Return the port that a socket holds."""
    return int(held.getsockname()[1])


Hold = Callable[[int], socket.socket]
"""Takes a port, and returns the socket that holds it until it is closed. Raises OSError if the port can't be had."""


def hold_listening(port: int) -> socket.socket:
    """Listen on a port, for a server that inherits the socket.

    Raises:
        OSError: The port can't be listened on.
    """
    listening = _bound(socket.SOCK_STREAM, port)
    try:
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def hold_reserved(port: int) -> socket.socket:
    """Reserve a port for a server that can't inherit a socket, such as Kafka, among all who reserve theirs so.

    The UDP port of the same number is the lock: no other process can have it, all users of the machine see it, and it ends with this process.

    Raises:
        OSError: Another process has reserved the port, or listens on it.
    """
    lock = _bound(socket.SOCK_DGRAM, port)
    try:
        _bound(socket.SOCK_STREAM, port_of(lock)).close()
    except OSError:
        lock.close()
        raise
    return lock


def hold_port(
    requested: int | None, default: int, *, flag: str, hold: Hold, taken: Collection[int] = ()
) -> socket.socket:
    """Hold the requested port. Without one, hold the default, or the next free of those 10, 20, 30 … above it.

    Args:
        requested: What the user asked for by ``flag``, or None.
        default: Where to start looking.
        flag: The option's name, for the error.
        hold: :func:`hold_listening` or :func:`hold_reserved`.
        taken: Ports of others, which are not tried.

    Raises:
        SwitchgearError: The requested port can't be had, or none of 200 ports from the default on.
    """
    if requested is not None:
        return _hold_requested(requested, flag, hold)
    for port in range(default, min(default + STEP * _TRIES, 65_536), STEP):
        if port not in taken:
            try:
                return hold(port)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise SwitchgearError(
                        f"The port {port} of {HOST} can't be used: {error.strerror or error}."
                    ) from None
    raise SwitchgearError(f"No free port from {default} on.", hint=f"Name one by {flag}.")


def _hold_requested(port: int, flag: str, hold: Hold) -> socket.socket:
    if not 1 <= port <= 65_535:
        raise SwitchgearError(f"{flag} {port} is not a port.", hint="Give a number from 1 to 65535.")
    try:
        return hold(port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SwitchgearError(
                f"{flag} {port}: the port is in use.", hint=f"Stop what uses it, or leave {flag} out."
            ) from None
        raise SwitchgearError(
            f"{flag} {port}: {error.strerror or error}.", hint=f"Name another port, or leave {flag} out."
        ) from None


def _bound(kind: socket.SocketKind, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, kind)
    try:
        if kind is socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port in TIME_WAIT is free
        bound.bind((HOST, port))
    except OSError:
        bound.close()
        raise
    return bound
