"""Find free TCP ports of 127.0.0.1."""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection
from contextlib import ExitStack
from typing import Final

from switchgear_schemas.errors import SwitchgearError

HOST: Final = "127.0.0.1"
_TRIES: Final = 200


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port in TIME_WAIT is free
        try:
            listener.bind((HOST, port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
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
        return [int(listener.getsockname()[1]) for listener in listeners]


def choose_port(requested: int | None, default: int, *, flag: str, taken: Collection[int] = ()) -> int:
    """Return the requested port. Without one, return the default or the next free port above it.

    Args:
        requested: What the user asked for by ``flag``, or None.
        default: Where to start looking.
        flag: The option's name, for the error.
        taken: Ports already given to something that does not listen yet.

    Raises:
        SwitchgearError: The requested port is in use or not a port, or 200 ports from the default on are in use.
    """
    if requested is not None:
        if not 1 <= requested <= 65_535:
            raise SwitchgearError(f"{flag} {requested} is not a port.", hint="Give a number from 1 to 65535.")
        if requested in taken or not is_free(requested):
            raise SwitchgearError(
                f"{flag} {requested}: the port is in use.", hint=f"Stop what uses it, or leave {flag} out."
            )
        return requested
    for port in range(default, min(default + _TRIES, 65_536)):
        if port not in taken and is_free(port):
            return port
    raise SwitchgearError(f"No free port from {default} on.", hint=f"Name one by {flag}.")
