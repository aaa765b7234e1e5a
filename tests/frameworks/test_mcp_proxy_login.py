"""A server that wants a login over OAuth works behind the proxy: the official client logs in as it does without it."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from switchgear_cli.local.ports import any_free_port
from tests.frameworks.forked import PATIENT
from tests.frameworks.proxies import LIMIT_S, over_stdio, running, text_of

pytestmark = pytest.mark.timeout(400)
SERVER = (sys.executable, str(Path(__file__).with_name("servers") / "login.py"))
REDIRECT = "http://127.0.0.1:1/callback"


class Person:
    """Somebody who logs in with a browser, and a client that keeps their tokens."""

    def __init__(self) -> None:
        self.visited, self.tokens, self.client, self._answer = [], None, None, ""

    async def visit(self, url: str) -> None:
        self.visited.append(url)
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(url)
        self._answer = answer.headers["location"]

    async def returned(self) -> AuthorizationCodeResult:
        found = {name: values[0] for name, values in parse_qs(urlsplit(self._answer).query).items()}
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens) -> None:
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client) -> None:
        self.client = client


@asynccontextmanager
async def logged_in(url: str, person: Person):
    metadata = OAuthClientMetadata(client_name="test", redirect_uris=[REDIRECT])
    auth = OAuthClientProvider(url, metadata, person, person.visit, person.returned)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=LIMIT_S) as http,
        streamable_http_client(url, http_client=http) as (read, write),
        ClientSession(read, write, read_timeout_seconds=LIMIT_S) as session,
    ):
        await session.initialize()
        yield session


async def test_a_client_logs_in_through_the_proxy_as_it_does_without_it_and_again_when_its_token_has_expired():
    port = any_free_port()
    direct = f"http://127.0.0.1:{port}/mcp"
    command = (*PATIENT, "--name", "login", direct, "--http", "127.0.0.1:0")
    ready = "Uvicorn running|Starting MCP server"
    async with running((*SERVER, str(port)), ready), running(command, r"serves (http://\S+/mcp)") as found:
        for url in (direct, found[1]):
            person = Person()
            async with logged_in(url, person) as session:
                assert text_of(await session.call_tool("who", {})) == person.client.client_id
                assert len(person.visited) == 1
                asked = parse_qs(urlsplit(person.visited[0]).query)
                assert asked["resource"] == [url]
                first = person.tokens.access_token
                await session.call_tool("revoke", {})
                assert text_of(await session.call_tool("who", {})) == person.client.client_id
                assert person.tokens.access_token != first
            async with logged_in(url, person) as session:
                assert {tool.name for tool in (await session.list_tools()).tools} == {"who", "revoke"}


async def test_a_client_at_standard_input_that_can_not_log_in_is_told_so():
    port = any_free_port()
    command = (*PATIENT, "--name", "login", f"http://127.0.0.1:{port}/mcp")
    async with (
        running((*SERVER, str(port)), "Uvicorn running|Starting MCP server"),
        over_stdio(command) as session,
    ):
        assert "It wants a login" in session.initialize_result.instructions
