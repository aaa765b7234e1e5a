"""A server at an address: streamable HTTP, in the protocols with and without a handshake."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import httpx2

from switchgear_mcp import forwarding
from switchgear_mcp import message as rpc
from switchgear_mcp.channel import larger
from switchgear_mcp.errors import AnswerTooLargeError, ServerDownError, SessionGoneError
from switchgear_mcp.events import Event
from switchgear_mcp.message import Id, Message, parsed
from switchgear_mcp.outgoing import (
    FIRST_ERROR,
    Outgoing,
    TooLargeError,
    events_of,
    refused,
    same_origin,
)
from switchgear_mcp.protocol import EVENT_STREAM, SESSION_HEADER, VERSION_HEADER
from switchgear_mcp.request_headers import of_message

log: Final = logging.getLogger("switchgear.mcp_proxy")
_SAME_METHOD: Final = frozenset({307, 308})
"""Redirects that keep the method."""
_MOST_REDIRECTS: Final = 4
_NOT_FOUND: Final = 404
_RESUMES: Final = 3
"""How often a stream is taken up again without a message between."""
_RESUME_S: Final = 1.0
_LONGEST_RESUME_S: Final = 60.0


class Address(Outgoing):
    """A server at an address. See :class:`~switchgear_mcp.channel.Channel`."""

    _moved: str | None = None
    """Where the server's redirects have led."""
    _session: str | None = None
    _version: str | None = None
    _lost: asyncio.Future[None] | None = None
    """Ends when the address can't be reached. None: it isn't connected yet."""
    _posts: dict[Id, asyncio.Task[None]]
    """Requests whose answers are read, once it is connected."""

    async def run(self, opened: Callable[[], None]) -> None:
        """Serve until the address can't be reached."""
        self._posts, self._lost = {}, asyncio.get_running_loop().create_future()
        opened()
        try:
            await self._lost
        finally:
            self._tasks.cancel()
            if self._session is not None:
                with suppress(httpx2.HTTPError, TimeoutError):
                    async with asyncio.timeout(1.0):
                        await self._http.delete(self._url, headers=self._with_session({}))
            await self._http.aclose()

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Post a message. A request's answer comes in the background."""
        if self._lost is None or self._lost.done():
            raise ConnectionResetError
        self._headers = forwarding.forwarded(headers.items(), self._server.forward_headers)
        if message.method == "initialize":
            self._session = self._version = None
        sent = self._with_session(of_message(message, headers))
        if not message.is_request:
            await self._post(message, sent)
            if message.method == "notifications/initialized":
                self._tasks.start(self._listen())
            return
        task = self._tasks.start(self._post(message, sent))
        self._posts[message.id] = task
        task.add_done_callback(lambda _: self._posts.pop(message.id, None))

    async def cancel(self, number: Id, notification: Message) -> None:
        """Send the notification. In the protocol without a handshake, end the request in its place."""
        post = None if self._lost is None else self._posts.get(number)
        if self._version is None and post is not None:
            post.cancel()
        else:
            await self.send(notification, self._headers)

    # -- requests -----------------------------------------------------------------------------------------------------

    @property
    def _url(self) -> str:
        return self._moved or self._server.url

    def _with_session(self, headers: Mapping[str, str]) -> dict[str, str]:
        found = {**forwarding.added(self._headers, self._server.headers), **headers}
        if self._session is not None:
            found[SESSION_HEADER] = self._session
        if self._version is not None and VERSION_HEADER not in found:
            found[VERSION_HEADER] = self._version
        return found

    async def _post(self, message: Message, headers: Mapping[str, str]) -> None:
        number = message.id if message.is_request else None
        try:
            response = await self._sent(message, headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self._end(error)
            return
        except httpx2.HTTPError as error:
            await self._fail(number, self._cut(error))
            return
        try:
            await self._answered(message, number, response)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            await self._fail(number, self._cut(error))
        except TooLargeError:
            await self._fail(number, AnswerTooLargeError(larger(self._server.name, self._most)))
        finally:
            await response.aclose()

    async def _sent(self, message: Message, headers: Mapping[str, str]) -> httpx2.Response:
        """Post a message, and follow redirects within the server's origin."""
        for _ in range(_MOST_REDIRECTS):
            request = self._http.build_request("POST", self._url, content=message.line, headers=headers)
            response = await self._http.send(request, stream=True)
            target = response.next_request
            if response.status_code not in _SAME_METHOD or target is None or not same_origin(request.url, target.url):
                break
            await response.aclose()
            self._moved = str(target.url)
        return response

    def _end(self, error: Exception) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_exception(error)

    def _cut(self, error: Exception | str) -> ServerDownError:
        text = self._hidden.hide(str(error))
        return ServerDownError(f"The server {self._server.name} ended the answer{f': {text}' if text else ''}.")

    async def _fail(self, number: Id, error: Exception) -> None:
        if number is not None:
            await self._receiver.fail(number, error)

    async def _answered(self, message: Message, number: Id, response: httpx2.Response) -> None:
        status = response.status_code
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in {"", "identity"}:
            text = f"answered in {encoding[:40]!r}, though the proxy asked for no compression"
            await self._fail(number, ServerDownError(f"The server {self._server.name} {text}."))
            return
        if status >= FIRST_ERROR:
            await self._refused(number, response)
            return
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if message.method == "initialize":
            self._session = response.headers.get(SESSION_HEADER)
        if kind == EVENT_STREAM:
            await self._stream(message, number, response)
        elif number is None:
            return
        elif not await self._take(await self._body(response), message, number):
            await self._fail(number, self._cut("it has no answer"))

    async def _refused(self, number: Id, response: httpx2.Response) -> None:
        """Let a request end that was answered with an error's status."""
        status = response.status_code
        if status == _NOT_FOUND and self._session is not None:
            await self._fail(number, SessionGoneError())
            return
        error = refused(self._server, response)
        if number is not None and error.challenge is None:
            with suppress(ValueError, httpx2.HTTPError, httpx2.StreamError, TooLargeError):
                for found in parsed(await self._body(response)):
                    if "error" in found.fields and "jsonrpc" in found.fields:
                        answer = found.changed(id=number)
                        answer.refusal = status, None
                        await self._receiver.receive(answer, number)
                        return
        await self._fail(number, error)

    async def _body(self, response: httpx2.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in response.aiter_raw():
            pieces.append(piece)
            size += len(piece)
            if size > self._most:
                raise TooLargeError
        return b"".join(pieces)

    async def _take(self, data: bytes, asked: Message, number: Id) -> bool:
        """Pass messages on. Return whether the answer to a request is among them."""
        try:
            found = parsed(data)
        except ValueError as error:
            self._receiver.skip(str(error))
            return False
        ended = False
        for message in found:
            if message.is_answer and message.id == number:
                ended = True
                if asked.method == "initialize":
                    self._version = rpc.plain(rpc.members(message.fields.get("result")).get("protocolVersion"))
            await self._receiver.receive(message, number)
        return ended

    async def _stream(self, asked: Message, number: Id, response: httpx2.Response) -> None:
        """Read the events of an answer. If the stream ends early, take it up again where it ended."""
        last, ended = _Last(), False
        async for event in events_of(response, self._most):
            last.note(event)
            if event.data:
                ended = await self._take(event.data, asked, number) or ended
        if ended or number is None:
            return
        for _ in range(_RESUMES):
            if last.number is None:
                break
            await asyncio.sleep(last.pause_s)
            headers = self._with_session({"last-event-id": last.number})
            with suppress(httpx2.HTTPError):
                async with self._http.stream("GET", self._url, headers=headers) as again:
                    if again.status_code >= FIRST_ERROR:
                        break
                    async for event in events_of(again, self._most):
                        last.note(event)
                        if event.data:
                            ended = await self._take(event.data, asked, number) or ended
            if ended:
                return
        await self._fail(number, self._cut("its stream ended without a response"))

    async def _listen(self) -> None:
        """Read what the server sends by itself, as long as it has a stream for that."""
        last, failures = _Last(), 0
        while failures < _RESUMES:
            headers = self._with_session({} if last.number is None else {"last-event-id": last.number})
            try:
                async with self._http.stream("GET", self._url, headers=headers) as response:
                    if response.status_code != HTTPStatus.OK:
                        return  # it has no such stream
                    async for event in events_of(response, self._most):
                        failures = 0
                        last.note(event)
                        if event.data:
                            await self._take(event.data, _LISTENS, None)
            except (httpx2.HTTPError, TooLargeError) as error:
                log.debug("the stream of %s ended: %s", self._server.name, error)
            failures += 1
            await asyncio.sleep(last.pause_s)


class _Last:
    """Where a stream is taken up again."""

    def __init__(self) -> None:
        self.number: str | None = None
        self.pause_s = _RESUME_S

    def note(self, event: Event) -> None:
        """Remember an event."""
        if event.number:
            self.number = event.number
        if event.retry_ms is not None:
            self.pause_s = min(event.retry_ms / 1000, _LONGEST_RESUME_S)


_LISTENS: Final = rpc.notification("")
