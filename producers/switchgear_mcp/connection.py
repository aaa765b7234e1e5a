"""One connection to a server: the transport, the session of the SDK in it, and why it ended."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

import anyio
import httpx2
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from switchgear.classify.waits import from_headers
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_mcp import answers, forwarding
from switchgear_mcp.child import AnswerOfNoRequestError
from switchgear_mcp.child import started as started_child
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.listing import Inbound, Listing
from switchgear_mcp.servers import CommandServer, Server, UrlServer
from switchgear_schemas.visible import sentence

log: Final = logging.getLogger("switchgear.mcp_proxy")
START_LIMIT_S: Final = 60.0
"""The longest time for a server to start and to answer the first request."""
_STOP_LIMIT_S: Final = 4.8
"""A process gets 2 s to end by itself and 2 s after SIGTERM, then it is killed. The SDK gives a connection 5 s to end."""
_STDERR_LIMIT_S: Final = 0.5
_MOST_STDERR: Final = 300
"""Characters of the last line of standard error in a message."""
_MOST_REASON: Final = 500


class Client(Protocol):
    """The client of the proxy, which answers a server's requests and gets its notifications."""

    params: types.InitializeRequestParams
    """What the client said about itself."""

    async def ask(self, request: Any, result: Any, context: ClientRequestContext) -> Any:
        """Let the client answer a request of a server."""

    async def connected(self, server: str) -> None:
        """Note that a server can be used, for the first time or again."""

    async def receive(self, server: str, notification: Any) -> None:
        """Pass a notification of a server on to the client."""


class _Dispatcher(JSONRPCDispatcher[Any]):
    """Notices the end of the connection, and sorts out the entries of lists before the SDK refuses the whole list."""

    def __init__(self, server: str, read: Any, write: Any, ended: asyncio.Event, listing: Listing) -> None:
        super().__init__(read, write)
        self._server, self._ended, self._listing = server, ended, listing

    async def run(self, *args: Any, **options: Any) -> None:
        """Read messages until the connection ends."""
        try:
            await super().run(*args, **options)
        finally:
            self._ended.set()

    async def send_raw_request(self, method: str, *given: Any, **options: Any) -> dict[str, Any]:
        """Send a request, and return the result."""
        result = await super().send_raw_request(method, *given, **options)
        return await self._listing.sorted_out(self._server, method, result)


class _UpstreamSession(ClientSession):
    """Is to the server what the client is to the proxy: with its name and its capabilities."""

    def __init__(
        self, server: str, read: Any, write: Any, client: Client, ended: asyncio.Event, listing: Listing
    ) -> None:
        async def sampling(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
            kind = types.CreateMessageResult if params.tools is None else types.CreateMessageResultWithTools
            return await client.ask(types.CreateMessageRequest(params=params), kind, context)

        async def elicitation(context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
            return await client.ask(types.ElicitRequest(params=params), types.ElicitResult, context)

        async def roots(context: ClientRequestContext) -> Any:
            return await client.ask(types.ListRootsRequest(), types.ListRootsResult, context)

        bad_lines = BoundedLog(log)

        async def on_message(message: types.ServerNotification | Exception) -> None:
            if isinstance(message, Exception):
                bad_lines.warning(f"The server {server} sent something that is not a message of MCP. It is skipped.")
            else:
                await client.receive(server, message)

        super().__init__(
            dispatcher=_Dispatcher(server, read, write, ended, listing),
            sampling_callback=sampling,
            elicitation_callback=elicitation,
            list_roots_callback=roots,
            message_handler=on_message,
            client_info=client.params.client_info,
        )
        self._of_client = client.params.capabilities.model_copy(update={"tasks": None})

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:  # noqa: ARG002 - the SDK's signature
        return self._of_client


@dataclass
class Ending:
    """Why a connection ended."""

    reason: str = ""
    status_code: int | None = None
    """The status of the last answer over HTTP, if it was an error."""
    wait_s: float | None = None
    """The seconds that its headers ask to wait."""


class Connection:
    """A started connection. ``await connection.started()``, then use ``session`` until ``alive`` is false.

    Args:
        server: The server.
        client: The client of the proxy.
        prepare: Called with the session before anybody uses it.
        inbound: What is let in of the server's messages.
    """

    def __init__(
        self, server: Server, client: Client, prepare: Callable[[ClientSession], Awaitable[None]], inbound: Inbound
    ) -> None:
        self.server = server
        self.hidden = Hidden(server)
        self.session: ClientSession | None = None
        self.ending = Ending()
        self.headers: dict[str, str] = {}
        """Of the client's last request. They are sent on to a server at an address."""
        self._client, self._prepare, self._inbound = client, prepare, inbound
        self._ended = asyncio.Event()
        self._stderr = _Stderr() if isinstance(server, CommandServer) else None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Not in the context of the request that happens to be first: the connection outlives it.
        self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    @property
    def alive(self) -> bool:
        """Whether requests can be sent."""
        return self.session is not None and not self._ended.is_set() and not self._task.done()

    @property
    def starting(self) -> bool:
        """Whether it is not known yet if the server can be used."""
        return not self._ready.done()

    async def started(self) -> bool:
        """Wait until the server can be used. Return false if it can't; ``ending`` says why."""
        await asyncio.wait({self._ready}, timeout=START_LIMIT_S + _STOP_LIMIT_S)
        return self.session is not None

    async def ended(self) -> Ending:
        """Wait for the end of a connection that broke, and return the reason."""
        self._ended.set()
        await asyncio.wait({self._task}, timeout=_STOP_LIMIT_S)
        return self.ending

    async def close(self) -> None:
        """End the connection and the server's process."""
        self._ended.set()
        if not self._ready.done():
            self._task.cancel()
        try:
            await asyncio.wait({self._task}, timeout=_STOP_LIMIT_S)
        finally:
            self._task.cancel()  # has no effect on a task that is done

    async def _run(self) -> None:
        try:
            async with (
                self._transport() as (read, write),
                _UpstreamSession(
                    self.server.name, read, write, self._client, self._ended, self._inbound.listing
                ) as session,
            ):
                with anyio.fail_after(START_LIMIT_S):
                    await session.initialize()
                    await self._prepare(session)
                self.session = session
                await self._client.connected(self.server.name)
                self._ready.set_result(None)
                await self._ended.wait()
                self.session = None
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is described
            self.ending.reason = self._described(error)
        finally:
            self.session = None
            self._ended.set()
            if self._stderr is not None:
                self._stderr.close()
            if not self.ending.reason:
                self.ending.reason = self._described(None)
            if not self._ready.done():
                self._ready.set_result(None)

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        if isinstance(self.server, CommandServer):
            assert self._stderr is not None
            async with started_child(self.server, self._stderr.file, self._inbound.most) as (read, write):
                self._stderr.close()  # the server has it
                yield read, write
        else:
            timeout = httpx2.Timeout(30.0, read=None)  # each request has its own limit
            own = {**answers.HEADERS, **self.server.headers}
            async with create_mcp_http_client(headers=own, timeout=timeout) as http:
                http.event_hooks["request"].append(self._add_headers)
                http.event_hooks["response"].append(self._look_at)
                url, most = self.server.url, 2 * self._inbound.most  # a smaller bound is in the answer's body
                async with streamable_http_client(url, http_client=http, max_sse_event_size=most) as (read, write):
                    yield read, write

    async def _add_headers(self, request: httpx2.Request) -> None:
        request.headers.update(forwarding.added(self.headers, self.server.headers))  # type: ignore[union-attr]

    async def _look_at(self, response: httpx2.Response) -> None:
        answers.bound(response, self.server.name, self._inbound.most)
        await self._note_status(response)

    async def _note_status(self, response: httpx2.Response) -> None:
        # A server without a stream for its own messages answers the GET with 405, which is not an error.
        if response.request.method == "POST":
            self.ending.status_code = response.status_code if response.is_error else None
            self.ending.wait_s = from_headers(response.headers) if response.is_error else None

    def _described(self, error: BaseException | None) -> str:
        """Return why the connection ended, for a sentence that begins with the server.

        It is one line of bounded length, with none of the server's secrets.
        """
        return sentence(self.hidden.hide(self._cause(error)))[:_MOST_REASON]

    def _cause(self, error: BaseException | None) -> str:
        cause = _innermost(error)
        if isinstance(cause, MCPError) and cause.code != types.CONNECTION_CLOSED and self.ending.status_code is None:
            return f"refused the connection: {cause.message}"
        return self._process_described(cause) if self._stderr is not None else self._url_described(cause)

    def _process_described(self, cause: BaseException | None) -> str:
        if isinstance(cause, TimeoutError):
            return f"did not answer within {START_LIMIT_S:g} s"
        if isinstance(cause, OSError) and cause.strerror:
            return f"can't be started: {cause.strerror}"
        if isinstance(cause, AnswerOfNoRequestError):
            return f"was ended. {cause}".rstrip(".")
        assert self._stderr is not None
        last = self.hidden.line(self._stderr.last_line())
        return f"has ended; the last line of its standard error is: {last}" if last else "has ended"

    def _url_described(self, cause: BaseException | None) -> str:
        assert isinstance(self.server, UrlServer)
        if self.ending.status_code is not None:
            return f"answered with HTTP {shown_status(self.ending.status_code)} at {self.server.shown_url}"
        if isinstance(cause, TimeoutError | httpx2.TimeoutException):
            return f"did not answer at {self.server.shown_url}"
        return f"can't be reached at {self.server.shown_url}" + (f": {cause}" if str(cause or "") else "")


class _Stderr:
    """Passes a server's standard error on, and remembers its last line."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.file = os.fdopen(writing, "w")
        self._last = b""
        # A thread, because whoever reads our standard error may be slow.
        self._thread = threading.Thread(target=self._copy, args=(reading,), name="stderr of a server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close our end. The thread ends when the server has closed its own."""
        with suppress(OSError):
            self.file.close()

    def last_line(self) -> str:
        """Return the last line that isn't empty, shortened. It waits a moment for it."""
        self._thread.join(_STDERR_LIMIT_S)
        text = self._last.decode(errors="replace").strip()
        return text if len(text) <= _MOST_STDERR else f"{text[:_MOST_STDERR]}…"

    def _copy(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as lines:
            while line := lines.readline(65_536):
                if line.strip():
                    self._last = line
                with suppress(OSError, ValueError):
                    sys.stderr.buffer.write(line)
                    sys.stderr.buffer.flush()


def shown_status(status_code: int) -> str:
    """Return a status of HTTP with its name."""
    with suppress(ValueError):
        return f"{status_code} {HTTPStatus(status_code).phrase}"
    return str(status_code)


def _innermost(error: BaseException | None) -> BaseException | None:
    """Return the cause within exception groups: the first that isn't a cancellation."""
    while isinstance(error, BaseExceptionGroup):
        error = next(
            (each for each in error.exceptions if not isinstance(each, asyncio.CancelledError)), error.exceptions[0]
        )
    return error
