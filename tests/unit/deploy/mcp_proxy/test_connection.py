"""What a connection to a server at an address sends on of the client's headers."""

from __future__ import annotations

import httpx2
import mcp_types as types
import pytest

from switchgear_cli.mcp_proxy import connection
from switchgear_cli.mcp_proxy.connection import Connection
from switchgear_cli.mcp_proxy.servers import UrlServer

ADDRESS = "https://tools.example.com/mcp"
OF_CLIENT = {"authorization": "Bearer client", "x-tenant": "of-client", "x-trace": "7"}


class Caller:
    """A client of the proxy that says who it is."""

    params = types.InitializeRequestParams(
        protocol_version="2025-06-18",
        capabilities=types.ClientCapabilities(),
        client_info=types.Implementation(name="a-client", version="1"),
    )


@pytest.fixture
def sent(monkeypatch):
    """The headers of each request that reaches the server, which answers 503."""
    seen = []

    async def answer(request):
        seen.append(request.headers)
        return httpx2.Response(503)

    def make(headers, timeout):
        return httpx2.AsyncClient(headers=headers, timeout=timeout, transport=httpx2.MockTransport(answer))

    monkeypatch.setattr(connection, "create_mcp_http_client", make)
    return seen


async def connect(configured):
    made = Connection(UrlServer("tools", ADDRESS, configured), Caller(), None)
    made.headers = OF_CLIENT
    assert not await made.started()
    assert "answered with HTTP 503" in made.ending.reason


@pytest.mark.parametrize("name", ["Authorization", "AUTHORIZATION", "authorization"])
async def test_a_server_with_a_token_of_its_own_does_not_get_that_of_the_client(sent, name):
    await connect({name: "Bearer own", "X-Tenant": "own"})
    assert [(each["authorization"], each["x-tenant"], each["x-trace"]) for each in sent] == [("Bearer own", "own", "7")]


async def test_a_server_without_a_token_of_its_own_gets_that_of_the_client(sent):
    await connect({})
    assert [(each["authorization"], each["x-tenant"]) for each in sent] == [("Bearer client", "of-client")]
