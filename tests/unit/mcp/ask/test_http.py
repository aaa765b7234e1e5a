"""Who may use the server over HTTP: whoever the API lets in, from known pages and hosts, within bounds, with their own token."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace

import httpx
import pytest

from switchgear_mcp.ask.callers import Callers
from switchgear_mcp.ask.errors import AskError
from switchgear_mcp.ask.http import PATH, HttpSide, token_of_request
from switchgear_mcp.ask.questions import Questions
from switchgear_mcp.ask.server import AskServer
from switchgear_schemas.access_settings import AccessSettings
from switchgear_schemas.errors import SettingsError
from tests.support.asgi import request as streamed
from tests.support.ask_api import TOKENS, ScriptedApi, circuit
from tests.support.limits import ANSWER_S

HERE, ALL = "127.0.0.1:8630", "0.0.0.0:8630"
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
EMIT = {"name": "agent", "roles": ["emit"], "tenant": None, "tools": []}


class Served:
    """A client of the server over HTTP, in this process."""

    def __init__(
        self, scripted=None, address=HERE, *, client="127.0.0.1", host="127.0.0.1:8630", most_sessions=8, **access
    ):
        self.scripted = scripted or ScriptedApi(circuit(), tokens=TOKENS | {"sgt_emit": EMIT})
        api = self.scripted.api()
        callers = Callers(api)
        server = AskServer(api, callers, Questions(api, "mcp:*:*"), token_of_request)
        self.side = HttpSide(address, AccessSettings(**access), callers, server.mcp, most_sessions=most_sessions)
        transport = httpx.ASGITransport(self.side.app, client=(client, 1234))
        self._http = httpx.AsyncClient(transport=transport, base_url=f"http://{host}", timeout=ANSWER_S)
        self._running = self.side.running()

    async def __aenter__(self):
        await self._running.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self._http.aclose()
        await self._running.__aexit__(None, None, None)

    async def post(self, method="tools/call", params=None, token="sgt_read", path=PATH, **headers):
        """Send a message of the protocol without a handshake."""
        asked = params if params is not None else {"name": "tools_down", "arguments": {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**asked, "_meta": MODERN}}
        given = HEADERS | {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            "Mcp-Name": asked.get("name", ""),
        }
        return await self.send(body, token, path, **given, **headers)

    async def hello(self, token="sgt_read", **headers):
        """Open a session of the protocol with a handshake."""
        return await self.send(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}, token, **HEADERS, **headers
        )

    async def send(self, body, token="sgt_read", path=PATH, **headers):
        access = {} if token is None else {"Authorization": f"Bearer {token}".encode("latin-1")}
        content = body if isinstance(body, bytes) else json.dumps(body)
        return await self._http.post(path, content=content, headers={**headers, **access})


def text(answer):
    return answer.json()["result"]["content"][0]["text"]


async def test_the_callers_token_is_passed_on_and_no_other(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_TOKEN", "sgt_operate")
    async with Served() as served:
        answer = await served.post()
        assert answer.status_code == 200
        assert "search is unavailable" in text(answer)
        assert {token for _, path, token in served.scripted.asked if path != "/v1/session"} == {"sgt_read"}
        await asyncio.gather(*(served.post(token=token) for token in ("sgt_read", "sgt_operate", "sgt_acme") * 5))
        assert {token for _, path, token in served.scripted.asked if path == "/v1/circuits"} == {
            "sgt_read",
            "sgt_operate",
            "sgt_acme",
        }


@pytest.mark.parametrize("token", [None, "sgt_gone", "", "sgt_read x", "ä"])
async def test_whom_the_api_does_not_let_in_is_not_let_in_here(token):
    async with Served() as served:
        answer = await served.post(token=token)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert not [path for _, path, _ in served.scripted.asked if path != "/v1/session"]


async def test_a_token_without_the_role_read_is_refused():
    async with Served() as served:
        assert (await served.post(token="sgt_emit")).status_code == 403


@pytest.mark.parametrize(("token", "offered"), [("sgt_read", False), ("sgt_operate", True), ("sgt_acme", False)])
async def test_each_token_sees_the_tools_of_its_role(token, offered):
    async with Served() as served:
        listed = (await served.post("tools/list", {}, token)).json()["result"]["tools"]
        assert ("operate" in [each["name"] for each in listed]) is offered


async def test_too_many_failed_logins_are_slowed_down_and_a_valid_token_is_not():
    async with Served(client="10.0.0.9", address=ALL) as served:
        found = [(await served.post(token=f"sgt_{number}")).status_code for number in range(25)]
        assert found[:20] == [401] * 20
        assert set(found[20:]) == {429}
        assert (await served.post()).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1.evil.example", 403),
        ("http://localhost:5173", 200),
        ("https://console.example.com", 200),
        (None, 200),
    ],
)
async def test_pages_of_other_hosts_are_refused(origin, status):
    async with Served(access_cors_origins="https://console.example.com") as served:
        given = {} if origin is None else {"Origin": origin}
        assert (await served.post(**given)).status_code == status


async def test_a_name_that_a_page_chose_for_this_machine_is_refused():
    async with Served(host="rebound.example:8630") as served:
        assert (await served.post()).status_code == 421


async def test_a_large_body_is_refused():
    async with Served() as served:
        answer = await served.post(params={"name": "why", "arguments": {"tool": "x" * 400_000}})
        assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"9" * 5_000])
@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "1999-01-01"])
async def test_what_is_no_message_is_an_error_of_the_client(body, version):
    async with Served() as served:
        answer = await served.send(body, **HEADERS, **{"MCP-Protocol-Version": version})
        assert 400 <= answer.status_code < 500


async def test_an_open_api_serves_this_machine_only_and_has_no_operators():
    async with Served(ScriptedApi(circuit(), tokens={})) as served:
        assert (await served.post(token=None)).status_code == 200
        for token in (None, "sgt_operate"):
            listed = (await served.post("tools/list", {}, token)).json()["result"]["tools"]
            assert "operate" not in [each["name"] for each in listed]
    async with Served(ScriptedApi(tokens={}), client="10.0.0.9", address=ALL) as served:
        assert (await served.post(token=None)).status_code == 403


async def test_other_machines_can_reach_it_only_before_an_api_with_tokens():
    await Served(address=ALL).side.check()
    with pytest.raises(SettingsError, match="the API has no tokens"):
        await Served(ScriptedApi(tokens={}), address=ALL).side.check()
    away = ScriptedApi()
    away.answers["/v1"] = lambda: httpx.Response(502)
    with pytest.raises(SettingsError, match="Other machines can reach"):
        await Served(away, address=ALL).side.check()
    await Served(away).side.check()


async def test_while_the_api_is_away_clients_are_told_to_wait():
    scripted = ScriptedApi()
    scripted.answers["/v1"] = lambda: httpx.Response(502)
    async with Served(scripted) as served:
        answer = await served.post()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_sessions_are_bounded_and_belong_to_their_token():
    async with Served(most_sessions=2) as served:
        first = (await served.hello()).headers["mcp-session-id"]
        assert (await served.hello("sgt_operate")).status_code == 200
        assert (await served.hello()).status_code == 503
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        given = {**HEADERS, "Mcp-Session-Id": first, "MCP-Protocol-Version": "2025-11-25"}
        assert (await served.send(listing, **given)).status_code == 200
        for other in ("sgt_operate", "sgt_other"):
            assert (await served.send(listing, other, **given)).status_code == 404


async def test_a_session_has_the_role_that_its_token_has_now(monkeypatch):
    monkeypatch.setattr("switchgear_mcp.ask.callers.FRESH_S", 0.0)
    scripted = ScriptedApi(tokens=dict(TOKENS))
    async with Served(scripted) as served:
        session = (await served.hello("sgt_operate")).headers["mcp-session-id"]
        given = {**HEADERS, "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert "operate" in (await served.send(listing, "sgt_operate", **given)).text
        scripted.tokens["sgt_operate"] = TOKENS["sgt_read"]
        assert '"operate"' not in (await served.send(listing, "sgt_operate", **given)).text
        del scripted.tokens["sgt_operate"]
        assert (await served.send(listing, "sgt_operate", **given)).status_code == 401


@pytest.mark.slow
async def test_one_token_takes_only_its_share():
    scripted = ScriptedApi(circuit())
    async with Served(scripted, access_requests_per_token=2) as served:
        scripted.pause_s = 0.2
        found = await asyncio.gather(*(served.post() for _ in range(6)), served.post(token="sgt_operate"))
        statuses = [each.status_code for each in found]
        assert statuses.count(429) == 4
        assert statuses[-1] == 200


@pytest.mark.slow
async def test_streams_of_one_token_are_bounded_and_do_not_hold_up_its_questions():
    listen = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "subscriptions/listen",
        "params": {"_meta": MODERN, "notifications": {"resourceSubscriptions": ["switchgear://tools"]}},
    }
    headers = {
        **{name.lower(): value for name, value in HEADERS.items()},
        "host": HERE,
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "subscriptions/listen",
    }
    async with Served(access_requests_per_token=2) as served:

        async def stream():
            return await streamed(
                served.side.app,
                "POST",
                PATH,
                token="sgt_read",
                body=json.dumps(listen).encode(),
                headers=headers,
                pieces=3,
            )

        streams = [asyncio.ensure_future(stream()) for _ in range(12)]
        done, _ = await asyncio.wait(streams, timeout=0.5)
        assert [each.result().status for each in done] == [429, 429]
        assert (await served.post()).status_code == 200
        for each in streams:
            each.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


async def test_there_is_nothing_at_other_paths():
    async with Served() as served:
        assert (await served.post(path="/")).status_code == 404


async def test_no_token_gets_into_the_log(caplog):
    caplog.set_level(logging.DEBUG)
    async with Served() as served:
        await served.post(token="sgt_secret_of_somebody")
        await served.post(token="sgt_operate")
        await served.hello("sgt_operate")
    assert "secret_of_somebody" not in caplog.text
    assert "sgt_operate" not in caplog.text


def test_a_message_without_a_request_has_no_token():
    with pytest.raises(AskError):
        token_of_request(SimpleNamespace(request=None))
    for value in ("", "Basic sgt_read", "Bearer ", "sgt_read"):
        request = SimpleNamespace(headers={"authorization": value})
        assert token_of_request(SimpleNamespace(request=request)) is None
