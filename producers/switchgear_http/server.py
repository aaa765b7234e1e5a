"""Serve an ASGI application inside a process that handles its own signals."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping
from typing import Any, Final

import uvicorn

from switchgear_http.connections import Connections
from switchgear_http.headers import SECURITY_HEADERS
from switchgear_http.limits import PROBES
from switchgear_http.problem import ProblemError

_GRACE_S: Final = 3


class ConcurrencyLimit:
    """ASGI middleware that answers 503 to more requests at a time than ``max_requests``. Probes always pass.

    Args:
        app: The application that answers the others.
        max_requests: Requests in progress at a time.
    """

    def __init__(self, app: Any, max_requests: int) -> None:
        self._app = app
        self._max_requests = max_requests
        self._running = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or answer that there are too many."""
        if self._running >= self._max_requests and scope["path"] not in PROBES:
            headers = {"Retry-After": "1", "Connection": "close", **SECURITY_HEADERS}
            busy = ProblemError(
                503, "This server has too many requests in progress.", "Try again in a moment.", headers
            )
            await busy.send(send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: on SIGTERM, this process has more to stop than a server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    def stop(self) -> None:
        """Finish the requests in progress, then return from ``serve``."""
        self.should_exit = True


def make_server(app: Any, connections: Connections | None = None, tls: Mapping[str, Any] | None = None) -> Server:
    """Return a server for ``app``. Run it with ``serve(sockets=[listen(…)])``.

    Half of its connections may have a request in progress.

    Args:
        app: The application.
        connections: Limits of the connections.
        tls: uvicorn's options for TLS; None for plain HTTP.
    """
    connections = connections or Connections()
    return Server(
        uvicorn.Config(
            ConcurrencyLimit(app, max(1, connections.max_open // 2)),
            http=connections.protocol,  # type: ignore[arg-type]  # uvicorn calls it; it need not be a class
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE_S,
            ws="none",
            **(tls or {}),
        )
    )


def collect_seldom() -> None:
    """Look for garbage seldom, and never in what the start has made. Call it when the server is ready.

    A request or a batch makes some thousand objects, hardly one of them in a cycle. Looking through them took a tenth of a gateway's time. Looking
    through all that the program has loaded takes 100 ms, in which no client of a stream gets a change.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
