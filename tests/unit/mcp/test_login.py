"""A client logs in at the server behind the proxy: what that says about it passes, with the proxy's address in it."""

from __future__ import annotations

import json

import httpx
import httpx2
import pytest

from switchgear_mcp.address import Address
from switchgear_mcp.errors import ServerStatusError
from switchgear_mcp.front import Front
from switchgear_mcp.http import PATH
from switchgear_mcp.login import Login, server_of
from switchgear_mcp.servers import CommandServer, UrlServer
from switchgear_schemas.access_settings import AccessSettings
from tests.support.mcp_worlds import HELLO, World

HERE = "http://127.0.0.1:8765"
SERVER = UrlServer("small", "https://h.example/api/mcp")
CHALLENGE = 'Bearer error="invalid_token", resource_metadata="https://h.example/meta", scope="a b"'
OURS = f"{HERE}/.well-known/oauth-protected-resource/mcp"
METADATA = {"resource": "https://h.example/api/mcp", "authorization_servers": ["https://login.example"], "vendor": 1.50}


def login(**pages):
    """Return a login at a server that has some pages, and the addresses that were asked for."""
    asked = []

    def respond(request):
        asked.append(str(request.url))
        found = pages.get(request.url.path.strip("/").replace("-", "_").replace(".", "").replace("/", "__"))
        return httpx2.Response(404) if found is None else httpx2.Response(200, stream=httpx2.ByteStream(found))

    return Login(SERVER, PATH, httpx2.MockTransport(respond)), asked


def test_the_challenge_of_a_server_names_the_metadata_of_the_proxy_and_all_else_stays():
    found, _ = login()
    assert found.challenge(CHALLENGE, HERE) == CHALLENGE.replace("https://h.example/meta", OURS)
    for other in ("Basic realm=x", 'Bearer resource_metadata="https://other.example/meta"'):
        assert found.challenge(other, HERE) == other


async def test_the_metadata_of_a_server_have_the_address_of_the_proxy_in_them():
    body = b'{ "resource": "https://h.example/api/mcp", "authorization_servers": [ "https://login.example"], "vendor":1.50}'
    found, asked = login(meta=body)
    found.challenge(CHALLENGE, HERE)
    answer = await found.answer("/.well-known/oauth-protected-resource/mcp", HERE)
    assert json.loads(answer) == METADATA | {"resource": f"{HERE}/mcp"}
    assert b'[ "https://login.example"]' in answer
    assert b"1.50" in answer
    assert asked == ["https://h.example/meta"]


async def test_without_a_challenge_the_metadata_are_where_the_standard_says():
    found, asked = login(well_known__oauth_protected_resource=json.dumps(METADATA).encode())
    assert await found.answer("/.well-known/oauth-protected-resource", HERE) is not None
    assert asked == [
        "https://h.example/.well-known/oauth-protected-resource/api/mcp",
        "https://h.example/.well-known/oauth-protected-resource",
    ]


async def test_the_metadata_of_an_authorization_server_at_the_same_address_pass_as_they_are():
    body = b'{"issuer" : "https://h.example"}'
    found, _ = login(well_known__oauth_authorization_server=body)
    assert await found.answer("/.well-known/oauth-authorization-server", HERE) == body
    assert await found.answer("/.well-known/openid-configuration", HERE) is None
    assert await found.answer("/.well-known/other", HERE) is None


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{" + b" " * 2_000_000 + b"}"])
async def test_what_is_no_metadata_does_not_pass(body):
    found, _ = login(meta=body)
    found.challenge(CHALLENGE, HERE)
    assert await found.answer("/.well-known/oauth-protected-resource/mcp", HERE) is None


def test_clients_log_in_at_one_server_at_an_address_that_has_no_token_of_its_own():
    assert server_of([SERVER]).forward_headers == ("authorization",)
    own = UrlServer("b", "https://b.example/mcp", {"Authorization": "Bearer x"})
    for servers in ([SERVER, own], [own], [CommandServer("c", "x")], []):
        assert server_of(servers) is None


async def test_a_server_that_wants_a_login_is_a_401_for_a_client_over_http_and_a_text_for_others():
    world = World()
    world.answers = {}
    app, _ = Front("127.0.0.1:8765", AccessSettings(), [SERVER]).app(world.proxy)
    error = ServerStatusError("It wants a login.", 401, challenge=CHALLENGE)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:

        async def post(number, method, params, **headers):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            accept = {"accept": "application/json, text/event-stream"}
            return await client.post(PATH, json=message, headers=accept | headers)

        world.answers["initialize"] = error
        refused = await post(1, "initialize", HELLO)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == CHALLENGE.replace("https://h.example/meta", OURS)
        assert "mcp-session-id" not in refused.headers
        world.answers = dict(World().answers)
        opened = await post(1, "initialize", HELLO)
        assert opened.status_code == 200
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        world.answers["tools/call"] = error
        for number in (2, 3):
            called = await post(number, "tools/call", {"name": "echo"}, **session)
            assert called.status_code == 401
        modern = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
        world.answers["server/discover"] = error
        version = {"mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover"}
        assert (await post(4, "server/discover", modern, **version)).status_code == 401
    assert world.classes == ["auth", "auth"]
    await world.proxy.close()
    stdio = World()
    stdio.answers["initialize"] = error
    assert "It wants a login" in (await stdio.hello())["result"]["instructions"]


async def test_the_status_of_a_server_that_refuses_in_json_rpc_passes_and_a_challenge_is_more_than_its_body():
    world = World()
    app, _ = Front("127.0.0.1:8765", AccessSettings(), [SERVER]).app(world.proxy)
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "vendor/x",
    }
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    asked = {"jsonrpc": "2.0", "id": "a", "method": "vendor/x", "params": {"_meta": meta}}
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}'

    def respond(request):
        challenge = {"www-authenticate": CHALLENGE} if b'"login"' in request.content else {}
        return httpx2.Response(409 if not challenge else 401, headers=challenge, stream=httpx2.ByteStream(body))

    world.proxy._given["make"] = lambda server, receiver, most, hidden: Address(
        SERVER, receiver, most, hidden, httpx2.MockTransport(respond)
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as client:
        refused = await client.post(PATH, json=asked, headers=headers)
        assert (refused.status_code, refused.json()["id"], refused.json()["error"]["message"]) == (409, "a", "no")
        asked["params"]["login"] = 1
        assert (await client.post(PATH, json=asked, headers=headers)).status_code == 401
    await world.proxy.close()
