"""A server at an address: what is posted, and what its answers mean."""

from __future__ import annotations

import asyncio
import gzip
import json

import httpx2
import pytest

from switchgear_mcp import message as rpc
from switchgear_mcp.address import Address
from switchgear_mcp.channel import MIB
from switchgear_mcp.errors import AnswerTooLargeError, ServerDownError, ServerStatusError, SessionGoneError
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.message import parsed
from switchgear_mcp.servers import UrlServer
from tests.support.limits import ANSWER_S
from tests.support.waiting import auntil

URL = "https://h/mcp"
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def answer(number=1, **result):
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


async def pieces(data):
    for at in range(0, len(data), 50_000):
        yield data[at : at + 50_000]


class connected:  # noqa: N801 - a block
    """A connection to a server that answers requests with what ``respond`` returns for them."""

    def __init__(self, respond, most=64 * MIB, **more):
        self._respond, self.requests, self.came = respond, [], asyncio.Queue()
        server = UrlServer("small", URL, **more)
        self.address = Address(server, self, most, Hidden(server), httpx2.MockTransport(self._handle))

    async def _handle(self, request):
        self.requests.append(request)
        found = self._respond(request)
        return await found if asyncio.iscoroutine(found) else found

    async def receive(self, message, related=None):
        await self.came.put((json.loads(message.line), related))

    async def fail(self, number, error):
        await self.came.put((number, error))

    def skip(self, why):
        self.came.put_nowait(why)

    async def __aenter__(self):
        opened = asyncio.Event()
        self.running = asyncio.create_task(self.address.run(opened.set))
        await opened.wait()
        return self

    async def __aexit__(self, *error):
        self.running.cancel()
        await asyncio.wait({self.running})

    async def ask(self, method="tools/call", number=1, params=None, headers=None):
        await self.address.send(rpc.request(number, method, params), headers or {})
        return await self.next()

    async def next(self):
        async with asyncio.timeout(ANSWER_S):
            return await self.came.get()


def always(status=200, headers=JSON, data=b""):
    return lambda _request: httpx2.Response(status, headers=headers, content=pieces(data))


@pytest.mark.parametrize(("headers", "data"), [(JSON, answer(a="x")), (EVENTS, b"data: " + answer(a="x") + b"\n\n")])
async def test_an_answer_is_the_same_as_json_and_as_events_and_none_is_asked_for_in_a_compressed_form(headers, data):
    async with connected(always(headers=headers, data=data)) as server:
        assert await server.ask() == ({"jsonrpc": "2.0", "id": 1, "result": {"a": "x"}}, 1)
        assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.slow
@pytest.mark.parametrize("headers", [JSON, EVENTS])
async def test_an_answer_of_sixty_megabytes_arrives_whole_and_one_over_the_bound_is_an_error(headers):
    data = answer(a="x" * 60 * MIB)
    body = data if headers is JSON else b"data: " + data + b"\n\n"
    async with connected(always(headers=headers, data=body)) as server:
        assert (await server.ask())[0] == json.loads(data)
    async with connected(always(headers=headers, data=body), most=MIB) as server:
        _, error = await server.ask()
        assert isinstance(error, AnswerTooLargeError)


async def test_the_session_and_the_version_of_the_handshake_are_in_each_request_after_it():
    def respond(request):
        method = json.loads(request.content).get("method") if request.content else None
        if method == "initialize":
            return httpx2.Response(
                200, headers={**JSON, "mcp-session-id": "s1"}, content=pieces(answer(protocolVersion="2025-06-18"))
            )
        return httpx2.Response(405 if request.method == "GET" else 202)

    async with connected(respond) as server:
        await server.ask("initialize")
        await server.address.send(rpc.notification("notifications/initialized"), {})
        await auntil(lambda: len(server.requests) == 3)
    first, *others = server.requests
    assert "mcp-session-id" not in first.headers
    assert [(each.method, each.headers["mcp-session-id"]) for each in others] == [
        ("POST", "s1"), ("GET", "s1"), ("DELETE", "s1"),
    ]  # fmt: skip
    assert {each.headers["mcp-protocol-version"] for each in others} == {"2025-06-18"}


async def test_a_request_of_the_protocol_without_a_handshake_repeats_itself_in_its_headers():
    async with connected(always(data=answer())) as server:
        await server.ask(params={"name": "\u00e9", **MODERN})
        await server.ask(
            params={"name": "x", **MODERN}, headers={"mcp-protocol-version": "v", "mcp-name": "other", "cookie": "c"}
        )
    own, passed = (each.headers for each in server.requests)
    assert (own["mcp-protocol-version"], own["mcp-method"], own["mcp-name"]) == (
        "2026-07-28",
        "tools/call",
        "=?base64?w6k=?=",
    )
    assert (passed["mcp-protocol-version"], passed["mcp-name"]) == ("v", "other")
    assert "cookie" not in passed


async def test_cancelling_a_request_without_a_handshake_ends_its_post():
    ended = asyncio.Event()

    async def never(_request):
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with connected(never) as server:
        await server.address.send(rpc.request(1, "tools/call", MODERN), {})
        await auntil(lambda: server.requests)
        await server.address.cancel(1, rpc.notification("notifications/cancelled", {"requestId": 1}))
        async with asyncio.timeout(ANSWER_S):
            await ended.wait()
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("respond", "kind", "text"),
    [
        (always(429, {"retry-after": "7"}), ServerStatusError, "HTTP 429 Too Many Requests"),
        (always(302, {"location": "https://other/"}), ServerStatusError, "HTTP 302 Found"),
        (always(200, EVENTS, b"data: \n\n"), ServerDownError, "its stream ended without a response"),
        (
            always(200, JSON | {"content-encoding": "gzip"}, gzip.compress(b"0" * MIB)),
            ServerDownError,
            "no compression",
        ),
        (always(200, JSON, answer(2)), ServerDownError, "it has no answer"),
    ],
)
async def test_what_is_no_answer_ends_the_request_with_what_it_means(respond, kind, text):
    async with connected(respond) as server:
        found = await server.ask()
        if isinstance(found[0], dict):  # an answer to another request
            found = await server.next()
        number, error = found
    assert (number, type(error)) == (1, kind)
    assert text in str(error)
    assert getattr(error, "retry_after", None) in {None, 7}


async def test_an_error_of_json_rpc_with_a_status_passes_as_the_answer():
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no","vendor":1}}'
    async with connected(always(400, JSON, body)) as server:
        assert (await server.ask())[0] == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {"code": -32020, "message": "no", "vendor": 1},
        }


async def test_a_session_that_the_server_has_forgotten_is_told_apart_from_an_address_that_is_wrong():
    def respond(request):
        if request.method == "POST" and json.loads(request.content)["method"] == "initialize":
            return httpx2.Response(
                200, headers={**JSON, "mcp-session-id": "s1"}, content=pieces(answer(protocolVersion="1"))
            )
        return httpx2.Response(404)

    async with connected(respond) as server:
        _, error = await server.ask()
        assert isinstance(error, ServerStatusError)
        await server.ask("initialize")
        _, error = await server.ask()
        assert isinstance(error, SessionGoneError)


async def test_a_stream_that_ends_early_is_taken_up_where_it_ended():
    first = b'id: 5\nretry: 1\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n'

    def respond(request):
        data = first if request.method == "POST" else b"data: " + answer(a=1) + b"\n\n"
        return httpx2.Response(200, headers=EVENTS, content=pieces(data))

    async with connected(respond) as server:
        assert (await server.ask())[0]["method"] == "notifications/x"
        assert (await server.next())[0]["result"] == {"a": 1}
        assert server.requests[1].headers["last-event-id"] == "5"


async def test_an_address_that_can_not_be_reached_ends_the_connection():
    def respond(_request):
        raise httpx2.ConnectError("All connection attempts failed")

    async with connected(respond) as server:
        await server.address.send(rpc.request(1, "x"), {})
        await asyncio.wait({server.running})
        described = await server.address.described(server.running.exception())
        assert described == "can't be reached at https://h: All connection attempts failed"
        with pytest.raises(ConnectionError):
            await server.address.send(rpc.request(2, "x"), {})


async def test_a_redirect_within_the_server_keeps_the_request():
    def respond(request):
        if not request.url.path.endswith("/"):
            return httpx2.Response(307, headers={"location": "/mcp/"})
        return httpx2.Response(200, headers=JSON, content=pieces(answer(a=1)))

    async with connected(respond) as server:
        assert (await server.ask())[0]["result"] == {"a": 1}
        assert [parsed(each.content)[0].method for each in server.requests] == ["tools/call"] * 2
