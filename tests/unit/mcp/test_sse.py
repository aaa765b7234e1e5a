"""A server at an address that has the former transport, HTTP with SSE."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from switchgear_mcp import message as rpc
from switchgear_mcp.channel import MIB
from switchgear_mcp.errors import ServerDownError, ServerStatusError
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.servers import UrlServer
from switchgear_mcp.sse import Either, Sse
from tests.support.limits import ANSWER_S

URL = "https://h/sse"


class Server:
    """A server of the former transport, and what a channel gets from it."""

    def __init__(self, kind, *, endpoint="/post?session=1", get=200, post=202, own_post=405, most=MIB, **more):
        self.endpoint, self.get, self.post, self.own_post = endpoint, get, post, own_post
        self.events, self.posted, self.came = asyncio.Queue(), [], asyncio.Queue()
        server = UrlServer("small", URL, **more)
        self.channel = kind(server, self, most, Hidden(server), httpx2.MockTransport(self._handle))

    async def _stream(self):
        yield f"event: endpoint\r\ndata: {self.endpoint}\r\n\r\n".encode()
        while (event := await self.events.get()) is not None:
            yield event

    async def _handle(self, request):
        if request.method == "GET":
            return httpx2.Response(self.get, headers={"content-type": "text/event-stream"}, content=self._stream())
        if request.url.path == "/sse":
            return httpx2.Response(self.own_post)
        self.posted.append(request)
        return httpx2.Response(self.post)

    async def receive(self, message, related=None):
        await self.came.put(json.loads(message.line))

    async def fail(self, number, error):
        await self.came.put((number, error))

    def skip(self, why):
        self.came.put_nowait(why)

    def say(self, data):
        self.events.put_nowait(b"event: message\r\ndata: " + data + b"\r\n\r\n")

    async def __aenter__(self):
        opened = asyncio.Event()
        self.running = asyncio.create_task(self.channel.run(opened.set))
        await asyncio.wait({asyncio.ensure_future(opened.wait()), self.running}, return_when=asyncio.FIRST_COMPLETED)
        return self

    async def __aexit__(self, *error):
        self.running.cancel()
        await asyncio.wait({self.running})

    async def next(self):
        async with asyncio.timeout(ANSWER_S):
            return await self.came.get()


HELLO = rpc.request(1, "initialize", {"protocolVersion": "2024-11-05"})


async def test_messages_are_posted_where_the_server_says_and_come_on_its_stream():
    async with Server(Sse, headers={"X-Own": "1"}, forward_headers=("authorization",)) as server:
        await server.channel.send(HELLO, {"authorization": "Bearer t", "cookie": "c"})
        server.say(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert await server.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        await server.channel.send(rpc.notification("notifications/initialized"), {})
        await server.channel.cancel(1, rpc.notification("notifications/cancelled", {"requestId": 1}))
        server.say(b"garbage")
        assert isinstance(await server.next(), str)
    first, *others = server.posted
    assert str(first.url) == "https://h/post?session=1"
    assert (first.headers["x-own"], first.headers["authorization"]) == ("1", "Bearer t")
    assert "cookie" not in first.headers
    assert [json.loads(each.content)["method"] for each in others] == [
        "notifications/initialized", "notifications/cancelled",
    ]  # fmt: skip


async def test_the_end_of_the_stream_is_the_end_of_the_connection():
    async with Server(Sse) as server:
        server.events.put_nowait(None)
        await asyncio.wait({server.running})
        assert (
            await server.channel.described(server.running.exception())
            == "can't be reached at https://h: its stream ended"
        )
        with pytest.raises(ConnectionError):
            await server.channel.send(HELLO, {})


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"endpoint": "https://other/post"}, "can't be reached at https://h: it wants messages at another host"),
        ({"get": 503}, "answered with HTTP 503 Service Unavailable"),
    ],
)
async def test_a_server_that_can_not_be_used_says_why(how, text):
    async with Server(Sse, **how) as server:
        await asyncio.wait({server.running})
        assert await server.channel.described(server.running.exception()) == text


async def test_a_message_that_the_server_does_not_take_ends_its_request():
    async with Server(Sse, post=429) as server:
        await server.channel.send(HELLO, {})
        number, error = await server.next()
        assert (number, error.status_code) == (1, 429)


async def test_a_message_that_is_too_large_ends_the_connection():
    async with Server(Sse, most=1_000) as server:
        server.events.put_nowait(b"data: " + b"x" * 2_000)
        await asyncio.wait({server.running})
        assert "is larger than the proxy reads" in str(server.running.exception())


@pytest.mark.parametrize("own_post", [400, 404, 405])
async def test_a_server_without_streamable_http_gets_the_handshake_again_on_the_former_transport(own_post):
    async with Server(Either, own_post=own_post) as server:
        await server.channel.send(HELLO, {})
        async with asyncio.timeout(ANSWER_S):
            while not server.posted:  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.01)
        server.say(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert (await server.next())["id"] == 1
        assert json.loads(server.posted[0].content) == json.loads(HELLO.line)


@pytest.mark.parametrize(("how", "status"), [({"own_post": 404, "get": 404}, 404), ({"own_post": 503}, 503)])
async def test_a_server_that_has_neither_transport_fails_with_what_it_said_first(how, status):
    async with Server(Either, **how) as server:
        await server.channel.send(HELLO, {})
        number, error = await server.next()
        assert (number, type(error), error.status_code) == (1, ServerStatusError, status)


async def test_a_post_that_reaches_nobody_ends_its_request():
    async with Server(Sse) as server:

        async def nobody(_request):
            raise httpx2.ConnectError("refused")

        server._handle = nobody
        server.channel._http._transport.handler = nobody
        await server.channel.send(HELLO, {})
        number, error = await server.next()
        assert (number, type(error)) == (1, ServerDownError)
