"""Clients over streamable HTTP: sessions of the protocols with a handshake, and requests of the one without."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from switchgear.runtime.throttled_log import BoundedLog
from switchgear_mcp import message as rpc
from switchgear_mcp.http_request import JSON, Request
from switchgear_mcp.http_side import HttpSide, Stream
from switchgear_mcp.link import Link
from switchgear_mcp.login import WELL_KNOWN, Login
from switchgear_mcp.message import Message
from switchgear_mcp.protocol import EVENT_STREAM, HANDSHAKES, SESSION_HEADER, SUBSCRIPTION_KEY, VERSION_HEADER
from switchgear_mcp.proxy import Proxy
from switchgear_mcp.request_headers import mismatch
from switchgear_mcp.servers import CommandServer
from switchgear_mcp.sessions import Sessions

log: Final = logging.getLogger("switchgear.mcp_proxy")
PATH: Final = "/mcp"
_STATUS: Final = {-32700: 400, -32600: 400, -32602: 400, -32020: 400, -32021: 400, -32022: 400, -32601: 404}
"""The status of HTTP for a code of an error, in the protocol without a handshake."""
_HEADER_MISMATCH: Final = -32020
_EVENTS: Final = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class _Session:
    """One client: its link, and since when it is unused."""

    def __init__(self, link: Link, side: HttpSide, who: str) -> None:
        self.link, self.side, self.who = link, side, who
        self.used = 0
        """Requests in progress, and open streams."""
        self.since = asyncio.get_running_loop().time()
        """The end of the last one."""


class HttpFront:
    """The ASGI application.

    Args:
        proxy: The proxy.
        sessions: Bounds.
        login: How clients log in at the server. None: they don't.
    """

    def __init__(self, proxy: Proxy, sessions: Sessions | None = None, login: Login | None = None) -> None:
        self._proxy, self._bounds, self._login = proxy, sessions or Sessions(), login
        self._checks = all(isinstance(server, CommandServer) for server in proxy.shared.servers)
        """Headers repeat the body without a handshake. A server at an address gets them, and compares itself."""
        self.sessions: dict[str, _Session] = {}
        """By id; those of clients without a handshake by the credential, with a space in front."""
        self._numbers = 0
        self._log = BoundedLog(log)

    async def run(self) -> None:
        """End idle sessions, until it is cancelled."""
        pause = max(0.05, min(1.0, self._bounds.idle_s / 4))
        while True:
            await asyncio.sleep(pause)
            now = asyncio.get_running_loop().time()
            for number, session in list(self.sessions.items()):
                if not session.used and now - session.since >= self._bounds.idle_s:
                    await self._end(number)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request that has passed the access control."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        if self._login is not None and scope["path"].startswith(WELL_KNOWN) and scope["method"] == "GET":
            found = await self._login.answer(scope["path"].rstrip("/"), request.origin)
            if found is not None:
                await request.answer(200, found, [JSON])
                return
        if scope["path"].rstrip("/") != PATH:
            await request.error(404, rpc.INVALID_REQUEST, "Not Found")
            return
        version = request.headers.get(VERSION_HEADER)
        modern = version is not None and version not in HANDSHAKES
        if scope["method"] == "POST":
            await self._post(request, modern=modern)
        elif modern or scope["method"] not in {"GET", "DELETE"}:
            allowed = b"POST" if modern else b"GET, POST, DELETE"
            await request.answer(405, b"", [(b"allow", allowed)])
        else:
            number = request.headers.get(SESSION_HEADER)
            session = None if number is None else self._of(number, request)
            if session is None or number is None:
                await request.no_session(number)
            elif scope["method"] == "GET":
                await self._stand(request, session)
            else:
                await self._end(number)
                await request.answer(200, b"")

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _of(self, number: str, request: Request) -> _Session | None:
        found = self.sessions.get(number)
        return found if found is not None and found.who == request.who and not number.startswith(" ") else None

    def _new(self, number: str, request: Request, *, stateless: bool) -> _Session | None:
        """Return a new session, None if there are too many."""
        if len(self.sessions) >= self._bounds.most:
            most = self._bounds.most
            self._log.warning(f"{most} sessions are open, so new ones are refused. --max-sessions allows more.")
            return None
        side = HttpSide(stateless=stateless)
        link = self._proxy.link(side, "" if stateless else number)
        self.sessions[number] = session = _Session(link, side, request.who)
        return session

    async def _end(self, number: str) -> None:
        session = self.sessions.pop(number, None)
        if session is not None:
            for stream in (*session.side.streams.values(), session.side.standing):
                if stream is not None:
                    stream.close()
            await self._proxy.end(session.link)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def _post(self, request: Request, *, modern: bool) -> None:
        message = await request.message()
        if message is None:
            return
        if modern:
            await self._stateless(request, message)
            return
        number = request.headers.get(SESSION_HEADER)
        opens = number is None and message.method == "initialize"
        if opens:
            number = uuid4().hex
            session = self._new(number, request, stateless=False)
            if session is None:
                await request.busy(self._bounds.most)
                return
        elif number is None or (session := self._of(number, request)) is None:
            await request.no_session(number)
            return
        session.link.principal = request.principal
        if not message.is_request:
            await session.link.handle(message, request.headers)
            await request.answer(202, b"")
            return
        headers = [(SESSION_HEADER.encode(), number.encode())]
        failed = await self._exchange(request, session, message, message, headers)
        if opens and failed:
            await self._end(number)

    async def _stateless(self, request: Request, message: Message) -> None:
        """Answer a request of the protocol without a handshake. All clients with one credential share a session."""
        if not message.is_request:
            await request.answer(202, b"")
            return
        wrong = mismatch(message, request.headers) if self._checks else None
        if wrong is not None:
            await request.answer(400, message.error(_HEADER_MISMATCH, wrong).line, [JSON])
            return
        number = f" {request.who}"
        session = self.sessions.get(number) or self._new(number, request, stateless=True)
        if session is None:
            await request.busy(self._bounds.most)
            return
        session.link.principal = request.principal
        self._numbers += 1
        await self._exchange(request, session, message, message.changed(id=self._numbers), [], modern=True)

    async def _exchange(
        self,
        request: Request,
        session: _Session,
        asked: Message,
        sent: Message,
        headers: list[tuple[bytes, bytes]],
        *,
        modern: bool = False,
    ) -> bool:
        """Pass a request on and send its answer, with what comes before it. Return whether the answer is an error."""
        stream = session.side.streams[sent.id] = Stream()
        session.used += 1
        watching = asyncio.ensure_future(request.close_when_gone(stream))
        working = asyncio.ensure_future(session.link.handle(sent, request.headers))
        try:
            return await self._answer(request, stream, asked, sent, headers, modern=modern)
        finally:
            watching.cancel()
            working.cancel()
            stream.close()
            if session.side.streams.get(sent.id) is stream:
                del session.side.streams[sent.id]
            if modern:
                params = {"requestId": sent.id, "reason": "The client has closed the stream."}
                await session.link.cancel_if_open(sent.id, rpc.notification("notifications/cancelled", params))
            session.used -= 1
            session.since = asyncio.get_running_loop().time()

    async def _answer(
        self,
        request: Request,
        stream: Stream,
        asked: Message,
        sent: Message,
        headers: list[tuple[bytes, bytes]],
        *,
        modern: bool,
    ) -> bool:
        streaming = False
        while True:
            message = await stream.get()
            if stream.closed:
                return False
            ends = message is not None and message.is_answer
            if message is not None:
                message = _restored(message, asked, sent)
            if message is not None and not streaming and await self._refuse(request, message):
                return True
            if message is not None and ends and modern and not streaming:
                await request.answer(_status(message), message.line, [JSON, *headers])
                return "error" in message.fields
            if not streaming:
                await request.start(200, [*_EVENTS, *headers])
                streaming = True
            await request.more(b": ping\r\n\r\n" if message is None else _event(message), end=ends)
            if message is not None and ends:
                return "error" in message.fields

    async def _refuse(self, request: Request, message: Message) -> bool:
        """Answer with the status with which the server refused, and with its challenge to log in. Return whether it did.

        If clients log in at the proxy itself, a challenge would be about the wrong login.
        """
        if message.refusal is None or (message.refusal[1] is not None and self._login is None):
            return False
        (status, challenge), headers = message.refusal, [JSON]
        if challenge is not None and self._login is not None:
            value = self._login.challenge(challenge, request.origin)
            headers.append((b"www-authenticate", value.encode("latin-1", "replace")))
        await request.answer(status, message.line, headers)
        return True

    async def _stand(self, request: Request, session: _Session) -> None:
        """Send what a session's servers say by themselves, until the client ends the stream."""
        if EVENT_STREAM not in request.headers.get("accept", ""):
            await request.error(406, rpc.INVALID_REQUEST, "Not Acceptable: Client must accept text/event-stream")
            return
        if session.side.standing is not None:
            await request.error(409, rpc.INVALID_REQUEST, "Conflict: Only one SSE stream is allowed per session")
            return
        stream = session.side.open()
        session.used += 1
        watching = asyncio.ensure_future(request.close_when_gone(stream))
        try:
            await request.start(200, [*_EVENTS])
            for message in session.side.waiting():
                await request.more(_event(message))
            while True:
                found = await stream.get()
                if stream.closed:
                    break
                await request.more(b": ping\r\n\r\n" if found is None else _event(found))
            with suppress(OSError):
                await request.more(b"", end=True)
        finally:
            watching.cancel()
            stream.close()
            if session.side.standing is stream:
                session.side.standing = None
            session.used -= 1
            session.since = asyncio.get_running_loop().time()


def _restored(message: Message, asked: Message, sent: Message) -> Message:
    """Return a message with the id that the client knows."""
    if asked is sent:
        return message
    if message.is_answer:
        return message.changed(id=asked.fields["id"])
    if rpc.plain(message.meta.get(SUBSCRIPTION_KEY)) == sent.id:
        meta = rpc.with_members(message.params["_meta"], **{SUBSCRIPTION_KEY: asked.fields["id"]})
        return message.changed(params=rpc.with_members(message.fields["params"], _meta=meta))
    return message


def _status(message: Message) -> int:
    if "error" not in message.fields:
        return 200
    code = rpc.plain(rpc.members(message.fields["error"]).get("code"))
    return _STATUS.get(code, 200)


def _event(message: Message) -> bytes:
    return b"event: message\r\ndata: " + message.line + b"\r\n\r\n"
