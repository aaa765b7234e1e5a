"""``switchgear mcp`` over standard input and output and over HTTP, driven by the official client with each role."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import asynccontextmanager

import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from switchgear_mcp.ask.server import URI
from tests.integration.mcp.conftest import QUESTIONS, opened, over_http
from tests.support.ask_api import text_of
from tests.support.deep import some
from tests.support.engine import store_circuits
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.processes import environment

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")]

MODES = ["2026-07-28", "legacy"]


@asynccontextmanager
async def over_stdio(api, token, mode, **how):
    variables = {"SWITCHGEAR_API_URL": api} | ({} if token is None else {"SWITCHGEAR_TOKEN": token})
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "switchgear_cli", "mcp"], env=environment(extra=variables)
    )
    async with Client(command, mode=mode, **how) as client:
        yield client


@asynccontextmanager
async def client_of(url, token, mode, **how):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=HAPPEN_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **how) as client,
    ):
        yield client


async def check_role(client, holder):
    """Ask every question as a holder of a role, and look at what is offered."""
    offered = [each.name for each in (await client.list_tools()).tools]
    assert offered == [*QUESTIONS, *(["operate"] if holder in {"operate", "admin"} else [])]
    down = await client.call_tool("tools_down", {})
    assert not down.is_error
    assert text_of(down).startswith("search is unavailable since")
    # A tenant learns neither what is measured over all calls, nor the name of a tool that it has never called.
    measured = "" if holder == "acme" else ": 5 calls in a row failed (the limit is 5)"
    assert f"The rule consecutive_failures opened it{measured}." in text_of(down)
    assert text_of(down).endswith("Use archive instead.") is (holder != "acme")
    others = await client.call_tool("alternatives", {"tool": "search", "among": ["archive"]})
    assert not others.is_error
    if holder != "acme":
        (archive,) = others.structured_content["alternatives"]
        assert (archive["success_rate"], round(archive["usd_per_call"], 4)) == (1.0, 0.01)
    plan = await client.call_tool("plan_check", {"tools": ["search", "archive"]})
    assert plan.structured_content["go"] is False
    errors = await client.call_tool("recent_errors", {"tool": "search"})
    assert errors.structured_content["errors"][0]["said"] == '"HTTP 503"'
    found = await client.call_tool("operate", {"tool": "search", "command": "close", "reason": "it works again"})
    if holder in {"operate", "admin"}:
        assert text_of(found).startswith("Nothing was done yet. Ask your user:")
    else:
        assert text_of(found).startswith("Nothing was done: a command needs a token")
    (resource,) = (await client.read_resource(URI)).contents
    assert '"search"' in resource.text


@pytest.mark.parametrize("mode", some(MODES, 1))
@pytest.mark.parametrize("holder", some(["operate", "read", "acme"], 1))
async def test_each_role_over_standard_input_and_output(api, tokens, holder, mode):
    async with over_stdio(api, tokens[holder], mode) as client:
        await check_role(client, holder)


@pytest.mark.deep
async def test_a_token_that_may_not_read_is_told_so_over_standard_input_and_output(api, tokens):
    for token, said in [
        (tokens["emit"], "may not do this"),
        ("sgt_gone", "does not accept the token"),
        (None, "or needs one"),
    ]:
        async with over_stdio(api, token, "legacy") as client:
            found = await client.call_tool("tools_down", {})
        assert found.is_error
        assert said in text_of(found)


@pytest.mark.deep
async def test_each_role_over_http_at_one_server(api, tokens, tmp_path):
    with over_http(api, tmp_path) as (url, child):
        for mode in MODES:
            for holder in ("read", "operate", "admin", "acme"):
                async with client_of(url, tokens[holder], mode) as client:
                    await check_role(client, holder)
        async with httpx2.AsyncClient() as http:
            for token, status in [(tokens["emit"], 403), ("sgt_gone", 401), (None, 401)]:
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                assert (await http.post(url, json={}, headers=headers)).status_code == status
        assert not any(token in child.output() for token in tokens.values())


@pytest.mark.parametrize("mode", some(MODES, 1))
async def test_a_subscriber_over_http_learns_of_a_change(api, store, tokens, tmp_path, mode):
    told = asyncio.Queue()

    async def message(found):
        if isinstance(found, types.ResourceUpdatedNotification):
            await told.put(found.params.uri)

    with over_http(api, tmp_path) as (url, child):
        async with client_of(url, tokens["read"], mode, message_handler=message) as client:
            if mode == "legacy":
                await client.session.subscribe_resource(URI)
                await asyncio.sleep(1)
                await store_circuits(store, [opened("mail")])
                assert await asyncio.wait_for(told.get(), ANSWER_S) == URI
            else:
                async with client.listen(resource_subscriptions=[URI]) as stream:
                    await asyncio.sleep(1)
                    await store_circuits(store, [opened("mail")])
                    assert (await asyncio.wait_for(anext(aiter(stream)), ANSWER_S)).uri == URI
            (resource,) = (await client.read_resource(URI)).contents
            assert '"mail"' in resource.text
        begin = time.monotonic()
        assert child.terminate() == 0
        assert time.monotonic() - begin < 8


@pytest.mark.deep
async def test_a_signal_ends_it_and_so_does_a_client_that_goes(api, tokens):
    command = [sys.executable, "-m", "switchgear_cli", "mcp"]
    variables = environment(extra={"SWITCHGEAR_API_URL": api, "SWITCHGEAR_TOKEN": tokens["read"]})
    for ending in ("signal", "end of input"):
        process = await asyncio.create_subprocess_exec(
            *command, env=variables, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert b'"id":1' in await asyncio.wait_for(process.stdout.readline(), HAPPEN_S)
        if ending == "signal":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 8) == 0  # own limit: clients kill a server that stays


@pytest.mark.deep
async def test_a_message_that_is_too_long_is_skipped_and_the_next_one_answered(api, tokens):
    variables = environment(extra={"SWITCHGEAR_API_URL": api, "SWITCHGEAR_TOKEN": tokens["read"]})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "switchgear_cli", "mcp", env=variables, stdin=-1, stdout=-1
    )
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
    process.stdin.write(ping % 1 + b'{"jsonrpc":"2.0","id":2,"x":"' + b"x" * 5_000_000 + b'"}\n' + ping % 3)
    answers = [await asyncio.wait_for(process.stdout.readline(), HAPPEN_S)]
    while b'"id":3' not in answers[-1]:
        answers.append(await asyncio.wait_for(process.stdout.readline(), HAPPEN_S))
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 8) == 0  # own limit: clients kill a server that stays
    assert all(len(each) < 1_000 for each in answers)
