"""Serving an ASGI application inside a process that owns its signals."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn

from switchgear_schemas.errors import SwitchgearError

_GRACE_S: Final = 3
_BACKLOG: Final = 512


def listen(address: str, setting: str) -> socket.socket:
    """Take ``host:port`` at once, so that a taken port is an error of the start and not of a task.

    Raises:
        SwitchgearError: the address is taken or not ours; ``setting`` is the one to change.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host.strip("[]"), int(port)))
        taken.listen(_BACKLOG)
    except OSError as error:
        taken.close()
        raise SwitchgearError(
            f"The address {address} cannot be listened on: {error.strerror or error}.",
            hint=f"Stop what uses it, or set {setting} to another host:port.",
        ) from error
    return taken


def url_of(listening: socket.socket) -> str:
    """``http://host:port`` of a socket, the port being the one it really got."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: SIGTERM has more to stop here than a server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    def stop(self) -> None:
        """Answer what is being asked, then return from ``serve``."""
        self.should_exit = True


def make_server(app: Any) -> Server:
    """A server for ``app``; run it with ``serve(sockets=[listen(…)])``."""
    return Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=_GRACE_S, ws="none"
        )
    )
