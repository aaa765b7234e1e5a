"""The life of a server: it serves beside the other tasks of its process until a signal, and then ends all of them in order."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog
from starlette.types import ASGIApp

from switchgear_http.connections import Connections
from switchgear_http.server import Server, collect_seldom, make_server
from switchgear_http.sockets import url_of

log = structlog.get_logger()

STOP_LIMIT_S: Final = 6.0
"""Twice as long as the server itself gives the requests in progress."""
_READY_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Work:
    """What a process does beside its server. If it ends by itself, the process ends.

    Args:
        name: For the log.
        run: Works until it is cancelled or asked to stop.
        stop: Asks it to end. None: it is cancelled when the requests in progress have ended.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    stop: Callable[[], None] | None = None


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping


async def serve(
    server: Server,
    listening: socket.socket,
    stopping: asyncio.Event,
    works: Sequence[Work] = (),
    *,
    watched: Collection[asyncio.Task[None]] = (),
    is_ready: Callable[[], bool] = lambda: True,
    end_streams: Callable[[], None] = lambda: None,
    limit_s: float = STOP_LIMIT_S,
) -> None:
    """Serve until a signal, or until a task ends. Then end everything, and raise what failed.

    The end has an order: the streams, the requests in progress together with the works that are asked to stop, then the other works.

    Args:
        server: As :func:`~switchgear_http.server.make_server` makes it.
        listening: The server's socket.
        stopping: Set by a signal.
        works: What runs beside the server.
        watched: Tasks that the caller ends later. If one of them ends by itself, the process ends.
        is_ready: What ``ready`` in the log waits for, beside the server.
        end_streams: Ends the requests that would not end by themselves.
        limit_s: The longest wait for requests and works to end. Then they are cancelled.

    Raises:
        RuntimeError: A task has ended by itself without an error.
        Exception: What a task failed with: one that ended by itself, or one that was asked to stop.
    """
    owned = (*works, Work("http", lambda: server.serve(sockets=[listening]), server.stop))
    running = {asyncio.create_task(work.run(), name=work.name): work for work in owned}
    signalled = asyncio.create_task(stopping.wait(), name="stop")
    announcing = asyncio.create_task(_announce(server, listening, is_ready), name="ready")
    ended: list[asyncio.Task[None]] = []
    try:
        await asyncio.wait([signalled, *running, *watched], return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in (*running, *watched) if task.done()]
    finally:
        signalled.cancel()
        announcing.cancel()
        end_streams()
        await _end(running, limit_s)
    for task in ended:
        task.result()  # raises what it failed with
        raise RuntimeError(f"The task {task.get_name()} ended by itself.")
    for task, work in running.items():
        if work.stop is not None and not task.cancelled():
            task.result()


@asynccontextmanager
async def serving(
    app: ASGIApp,
    listening: socket.socket,
    connections: Connections,
    *,
    tls: Mapping[str, Any] | None = None,
    limit_s: float = STOP_LIMIT_S,
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve while the block runs, and yield the server's task.

    Args:
        app: The application.
        listening: The server's socket.
        connections: Limits of the connections.
        tls: As for :func:`~switchgear_http.server.make_server`.
        limit_s: The longest wait for the requests in progress at the end.
    """
    server = make_server(app, connections, tls)
    work = Work("http", lambda: server.serve(sockets=[listening]), server.stop)
    task = asyncio.create_task(work.run(), name=work.name)
    try:
        yield task
    finally:
        await _end({task: work}, limit_s)


async def _end(running: dict[asyncio.Task[None], Work], limit_s: float) -> None:
    """Ask those to stop that can be asked, and wait for them. Then cancel what is left."""
    asked = [task for task, work in running.items() if work.stop is not None]
    for work in running.values():
        if work.stop is not None:
            work.stop()
    _, late = await asyncio.wait(asked, timeout=limit_s)
    for task in late:
        log.warning("did not stop in time", task=task.get_name())
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _announce(server: Server, listening: socket.socket, is_ready: Callable[[], bool]) -> None:
    while not (server.started and is_ready()):  # noqa: ASYNC110 - uvicorn has a flag, no event
        await asyncio.sleep(_READY_POLL_S)
    collect_seldom()
    log.info("ready", http=url_of(listening, "https" if server.config.is_ssl else "http"))
