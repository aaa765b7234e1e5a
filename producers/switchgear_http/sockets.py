"""The socket that a server listens on: its own, or one that ``switchgear up`` holds for it.

``up`` holds the sockets of its children, so that no other process can take their ports, not even while a child restarts. An answer of
a child names its process, so that ``up`` doesn't take another process for its child.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from switchgear_schemas.errors import SettingsError

SOCKET_VARIABLE: Final = "_SWITCHGEAR_SOCKET"
"""Holds ``host:port=descriptor`` of a listening socket that this process inherited. The underscore says that it isn't a setting."""
PID_HEADER: Final = "Switchgear-Pid"
_BACKLOG: Final = 512


def listen(address: str, setting: str) -> socket.socket:
    """Return the inherited socket that listens on ``host:port``, or listen on it now.

    So a taken port is an error of the start and not of a task.

    Args:
        address: ``host:port``.
        setting: Where the address is set, for the error.

    Raises:
        SettingsError: The address is taken or isn't one of this machine.
    """
    listening = _inherited(address) or _own(address, setting)
    # Connections inherit it. Without it, the second write of an answer waits 40 ms for the client's delayed ACK of the first. asyncio sets
    # it by itself only if the socket names its protocol.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _inherited(address: str) -> socket.socket | None:
    named, _, descriptor = os.environ.get(SOCKET_VARIABLE, "").rpartition("=")
    if named != address:
        return None
    del os.environ[SOCKET_VARIABLE]  # this process's own children get neither the variable nor the socket
    listening = socket.socket(fileno=int(descriptor))
    listening.set_inheritable(False)
    return listening


def _own(address: str, setting: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), int(port)))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"The address {address} cannot be listened on: {error.strerror or error}.",
            hint=f"Stop what uses it, or set {setting} to another host:port.",
        ) from error
    return listening


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    """Return ``http://host:port`` of a socket, with the port that it got."""
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def own_pid() -> dict[str, str]:
    """Return the header of an answer that names this process."""
    return {PID_HEADER: str(os.getpid())}
