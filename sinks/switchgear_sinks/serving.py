"""Serving an ASGI application inside a process that owns its signals."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.flow_control import service_unavailable

from switchgear_schemas.errors import SwitchgearError
from switchgear_sinks.connections import Crowd

_GRACE_S: Final = 3
_BACKLOG: Final = 512
_PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})


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


class Busy:
    """ASGI middleware that answers 503 to more requests at a time than are worked on; probes and scrapes always pass.

    Args:
        app: What answers the others.
        most: Requests at a time.
    """

    def __init__(self, app: Any, most: int) -> None:
        self._app = app
        self._most = most
        self._now = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or answer that there are too many."""
        if self._now >= self._most and scope["path"] not in _PROBES:
            await service_unavailable(scope, receive, send)
            return
        self._now += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._now -= 1


def make_server(app: Any, crowd: Crowd | None = None) -> Server:
    """A server for ``app``; run it with ``serve(sockets=[listen(…)])``. Half of its connections may have a request that is worked on."""
    crowd = crowd or Crowd()
    return Server(
        uvicorn.Config(
            Busy(app, max(1, crowd.most // 2)),
            http=crowd.protocol,  # type: ignore[arg-type]  # it calls what it is given; a class is only its habit
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE_S,
            ws="none",
        )
    )
