"""Clients over HTTP: sessions with a handshake, and requests without one, over one server each."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from switchgear_mcp.front import Front
from switchgear_mcp.http import PATH
from switchgear_schemas.access_settings import AccessSettings
from tests.support.mcp_worlds import HELLO, World
from tests.support.waiting import auntil

HERE = "127.0.0.1:8765"
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
VERSION = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
MODERN = {"mcp-protocol-version": "2026-07-28"}


class Clients:
    """Clients of a front."""

    def __init__(self):
        self.world = World()
        app, self.front = Front(HERE, AccessSettings()).app(self.world.proxy)
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HERE}")

    async def post(self, message, **headers):
        sent = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._http.post(PATH, content=json.dumps({"jsonrpc": "2.0"} | message), headers=sent)

    async def modern(self, number, method, **params):
        message = {"id": number, "method": method, "params": {"_meta": VERSION, **params}}
        return await self.post(message, **MODERN, mcp_method=method)

    async def session(self):
        """Make a handshake. Return the header of the session."""
        opened = await self.post({"id": 0, "method": "initialize", "params": HELLO})
        assert opened.status_code == 200
        header = {"mcp_session_id": opened.headers["mcp-session-id"]}
        assert (await self.post({"method": "notifications/initialized"}, **header)).status_code == 202
        return header


@pytest.fixture
async def clients():
    made = Clients()
    yield made
    await made.world.proxy.close()


def events(response):
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line.startswith("data: ")]


async def test_each_session_has_its_own_connection_to_the_server_and_answers_are_streams(clients):
    first, second = await clients.session(), await clients.session()
    assert len(clients.world.connections) == 2
    answer = await clients.post({"id": 1, "method": "tools/list"}, **first)
    assert answer.headers["content-type"] == "text/event-stream"
    (found,) = events(answer)
    assert [each["name"] for each in found["result"]["tools"]] == ["echo", "search"]
    assert first != second


async def test_what_comes_before_an_answer_is_on_the_stream_of_its_request(clients):
    header, world = await clients.session(), clients.world
    meta = {"progressToken": 1}
    asking = asyncio.create_task(clients.post({"id": 1, "method": "vendor/x", "params": {"_meta": meta}}, **header))
    await auntil(lambda: world.server.asked("vendor/x"))
    await world.server.say({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}})
    await world.server.say({"id": 9, "method": "roots/list"})
    await auntil(lambda: 9 in next(iter(clients.front.sessions.values())).link._asked)
    assert (await clients.post({"id": 9, "result": {"roots": []}}, **header)).status_code == 202
    await auntil(lambda: json.loads(world.server.got[-1]).get("result") == {"roots": []})
    await world.server.say({"id": 1, "result": {"x": 1}})
    found = events(await asking)
    assert [each.get("method") for each in found] == ["notifications/progress", "roots/list", None]
    assert found[-1] == {"jsonrpc": "2.0", "id": 1, "result": {"x": 1}}


async def test_clients_without_a_handshake_share_a_connection_and_each_gets_its_own_answer(clients):
    world = clients.world
    asking = [asyncio.create_task(clients.modern(1, "vendor/x", n=number)) for number in range(3)]
    await auntil(lambda: world.connections and len(world.server.asked("vendor/x")) == 3)
    for asked in world.server.asked("vendor/x"):
        await world.server.say({"id": asked["id"], "result": {"n": asked["params"]["n"]}})
    answers = [(await each).json() for each in asking]
    assert answers == [{"jsonrpc": "2.0", "id": 1, "result": {"n": number}} for number in range(3)]
    assert len(world.connections) == 1


@pytest.mark.parametrize(("code", "status"), [(-32601, 404), (-32602, 400), (-32020, 400), (-32603, 200)])
async def test_an_error_has_the_status_of_the_protocol_without_a_handshake(clients, code, status):
    clients.world.answers["vendor/x"] = {"error": {"code": code, "message": "no"}}
    assert (await clients.modern(1, "vendor/x")).status_code == status


@pytest.mark.parametrize(
    ("headers", "header"),
    [
        ({"mcp_method": "tools/list"}, "mcp-method"),
        ({}, "mcp-method"),
        ({"mcp_method": "tools/call"}, "mcp-name"),
        ({"mcp_method": "tools/call", "mcp_name": "other"}, "mcp-name"),
        (
            {"mcp_method": "tools/call", "mcp_name": "echo", "mcp_protocol_version": "2099-01-01"},
            "mcp-protocol-version",
        ),
    ],
)
async def test_headers_that_say_something_else_than_the_request_are_refused(clients, headers, header):
    message = {"id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": VERSION}}
    answer = await clients.post(message, **MODERN | headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32020
    assert header in answer.json()["error"]["message"]


async def test_a_client_that_closes_the_stream_cancels_its_request(clients):
    world = clients.world
    message = {"id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": VERSION}}
    asking = asyncio.create_task(clients.post(message, **MODERN, mcp_method="tools/call", mcp_name="echo"))
    await auntil(lambda: world.connections and world.server.asked("tools/call"))
    asking.cancel()
    await auntil(lambda: world.server.asked("notifications/cancelled"))
    (asked,), (cancelled,) = world.server.asked("tools/call"), world.server.asked("notifications/cancelled")
    assert cancelled["params"]["requestId"] == asked["id"]
    assert world.classes == ["cancelled"]


async def test_a_subscription_has_the_id_that_its_client_knows(clients):
    world, key = clients.world, "io.modelcontextprotocol/subscriptionId"
    listening = asyncio.create_task(
        clients.modern("l", "subscriptions/listen", notifications={"toolsListChanged": True})
    )
    await auntil(lambda: world.connections and world.server.asked("subscriptions/listen"))
    (asked,) = world.server.asked("subscriptions/listen")
    meta = {"_meta": {key: asked["id"]}, "notifications": {}}
    await world.server.say({"method": "notifications/subscriptions/acknowledged", "params": meta})
    (session,) = clients.front.sessions.values()
    await session.link.tools_changed()
    await world.server.say({"id": asked["id"], "result": {}})
    acknowledged, changed, ended = events(await listening)
    assert acknowledged["params"] == {"_meta": {key: "l"}, "notifications": {"toolsListChanged": True}}
    assert changed["params"] == {"_meta": {key: "l"}}
    assert ended["id"] == "l"


async def test_requests_that_belong_to_no_session_are_refused(clients):
    assert (await clients.post({"id": 1, "method": "ping"})).status_code == 400
    assert (await clients.post({"id": 1, "method": "ping"}, mcp_session_id="x")).status_code == 404
    assert (await clients.post({"id": 1, "method": "ping"}, Accept="text/html")).status_code == 406
