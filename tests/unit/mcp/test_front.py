"""Who may use the proxy over HTTP, from which pages, and how many sessions stay open."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_mcp.front import Front
from switchgear_mcp.http import PATH
from switchgear_mcp.servers import CommandServer, UrlServer
from switchgear_mcp.sessions import Sessions
from switchgear_schemas.access_settings import AccessSettings
from switchgear_schemas.errors import SettingsError
from tests.support.mcp_worlds import World
from tests.support.virtual_time import in_virtual_time

HERE = "127.0.0.1:8765"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def settings(*tokens, **more):
    text = ""
    for token in tokens:
        text = with_token(text, token)
    return AccessSettings(**({"access_tokens": text} if tokens else {}), **more)


def token(name, *roles):
    """Return the text of a token, and what its file has."""
    return new_token(name, roles)[::-1]


class served:  # noqa: N801 - a block
    """A client of the front, from an address."""

    def __init__(self, front, host=HERE, client=("127.0.0.1", 1234)):
        self.world = World()
        self._app, self.front = front.app(self.world.proxy)
        transport = httpx.ASGITransport(self._app, client=client)
        self._http = httpx.AsyncClient(transport=transport, base_url=f"http://{host}")

    async def __aenter__(self):
        self._running = asyncio.create_task(self.front.run())
        return self

    async def __aexit__(self, *error):
        self._running.cancel()
        await self._http.aclose()
        await self.world.proxy.close()

    async def post(self, message=HELLO, **headers):
        sent = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._http.post(PATH, json=message, headers=sent)

    async def delete(self, session):
        return await self._http.delete(PATH, headers=HEADERS | {"mcp-session-id": session})


# -- where it listens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["0.0.0.0:8765", "[::]:8765", "192.168.1.2:8765", "gear.example.com:8765"])
def test_an_address_that_other_machines_reach_needs_tokens(address):
    with pytest.raises(SettingsError, match="no tokens are set") as raised:
        Front(address, AccessSettings())
    assert "switchgear token create" in str(raised.value)
    assert "set --http to 127.0.0.1:8765" in str(raised.value)
    Front(address, settings(token("a", Role.EMIT)[1]))


@pytest.mark.parametrize("address", [HERE, "localhost:8765", "[::1]:8765"])
def test_an_address_of_this_machine_needs_none(address):
    Front(address, AccessSettings())


def test_the_proxys_own_tokens_go_to_no_server():
    forwarding = UrlServer("github", "https://h/mcp", {}, ("authorization",))
    with pytest.raises(SettingsError, match="The server github would get the tokens"):
        Front(HERE, settings(token("a", Role.EMIT)[1]), [CommandServer("a", "b"), forwarding])
    Front(HERE, AccessSettings(), [forwarding])


# -- who ------------------------------------------------------------------------------------------------------------------


async def test_without_tokens_this_machine_alone_is_served():
    front = Front(HERE, AccessSettings())
    async with served(front) as here, served(front, client=("10.0.0.7", 1)) as there:
        assert (await here.post()).status_code == 200
        refused = await there.post()
    assert refused.status_code == 403
    assert "own machine only" in refused.text


async def test_with_tokens_each_client_needs_one_of_the_role_emit():
    (emit, emitter), (read, reader) = token("a", Role.EMIT), token("b", Role.READ)
    async with served(Front(HERE, settings(emitter, reader))) as client:
        answers = [await client.post(), await client.post(authorization="Bearer sgt_wrong")]
        answers += [await client.post(authorization=f"Bearer {text}") for text in (read, emit)]
    assert [each.status_code for each in answers] == [401, 401, 403, 200]


async def test_a_session_belongs_to_the_token_that_opened_it():
    (one, first), (two, second) = token("a", Role.EMIT), token("b", Role.EMIT)
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with served(Front(HERE, settings(first, second))) as client:
        opened = await client.post(authorization=f"Bearer {one}")
        session = opened.headers["mcp-session-id"]
        found = [await client.post(ping, authorization=f"Bearer {text}", mcp_session_id=session) for text in (two, one)]
    assert [each.status_code for each in found] == [404, 200]


# -- from which pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8765", 200),
        ("[::1]:8765", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
async def test_a_page_under_a_name_of_its_own_does_not_reach_a_proxy_on_its_users_machine(host, status):
    async with served(Front(HERE, AccessSettings())) as client:
        assert (await client.post(host=host)).status_code == status


async def test_a_name_can_be_allowed():
    async with served(Front(HERE, AccessSettings(), allowed_hosts=["gear.example.com", "*.internal"])) as client:
        found = [(await client.post(host=host)).status_code for host in ("gear.example.com", "a.internal", "other")]
    assert found == [200, 200, 421]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8765", 200),
        ("http://localhost:3000", 200),
        ("https://console.example.com", 200),
        ("https://evil.example", 403),
        ("http://127.0.0.1.evil.example", 403),
        ("null", 403),
        ("http://[::1", 403),
        ("", 403),
    ],
)
async def test_pages_of_other_hosts_are_refused(origin, status):
    front = Front(HERE, AccessSettings(access_cors_origins="https://console.example.com"))
    async with served(front) as client:
        assert (await client.post(origin=origin)).status_code == status


async def test_a_page_of_the_servers_own_host_is_served():
    text, hashed = token("a", Role.EMIT)
    async with served(Front("0.0.0.0:8765", settings(hashed)), host="gear.example.com") as client:
        found = await client.post(authorization=f"Bearer {text}", origin="http://gear.example.com")
    assert found.status_code == 200


# -- sessions -------------------------------------------------------------------------------------------------------------


async def test_one_session_more_than_the_bound_is_refused_in_words_until_one_ends(caplog):
    async with served(Front(HERE, AccessSettings(), sessions=Sessions(most=3))) as client:
        opened = [await client.post() for _ in range(3)]
        refused = [await client.post() for _ in range(5)]
        assert [each.status_code for each in opened] == [200] * 3
        assert {each.status_code for each in refused} == {503}
        message = json.loads(refused[0].content)["error"]["message"]
        assert "3 sessions open" in message
        assert "--max-sessions" in message
        assert caplog.text.count("3 sessions are open") == 1
        assert (await client.delete(opened[0].headers["mcp-session-id"])).status_code == 200
        assert (await client.post()).status_code == 200


async def test_many_at_once_open_no_more_than_the_bound():
    async with served(Front(HERE, AccessSettings(), sessions=Sessions(most=3))) as client:
        found = await asyncio.gather(*(client.post() for _ in range(20)))
        assert sorted(each.status_code for each in found) == [200] * 3 + [503] * 17
        assert len(client.front.sessions) == 3


@in_virtual_time
async def test_abandoned_sessions_end_after_the_idle_time():
    async with served(Front(HERE, AccessSettings(), sessions=Sessions(most=15, idle_s=60))) as client:
        assert [(await client.post()).status_code for _ in range(16)] == [200] * 15 + [503]
        await asyncio.sleep(59)
        assert len(client.front.sessions) == 15
        await asyncio.sleep(2)
        assert len(client.front.sessions) == 0
        assert (await client.post()).status_code == 200
