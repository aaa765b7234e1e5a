"""The walls of the MCP proxy, attacked through the proxy as users run it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import asynccontextmanager

import psutil
import pytest
from fastmcp import Client
from mcp import MCPError

from switchgear import Switchgear
from switchgear_cli.local.ports import any_free_port
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_mcp.channel import MIB
from switchgear_mcp.proxy import Proxy
from switchgear_mcp.servers import CommandServer, UrlServer
from tests.frameworks.in_process import InProcess
from tests.frameworks.proxies import LIMIT_S, PROXY, ROOT, SMALL, over_http, over_stdio, running, text_of, until
from tests.support.limits import HAPPEN_S

pytestmark = pytest.mark.timeout(500)
RAW = str(ROOT / "tests/support/raw_mcp_server.py")
RAW_COMMAND = (sys.executable, "-S", RAW)
SECRET = "s3cr3t-0123456789"
READY = r"serves (http://\S+/mcp)"


def raw(name, *args, **env):
    return CommandServer(name, sys.executable, ("-S", RAW, *args), env)


@asynccontextmanager
async def client_of(*servers, **options):
    """Yield a client of a proxy in this process."""
    async with Client(InProcess(Proxy(servers, Switchgear.local(), **options)), mode="legacy") as client:
        yield client


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}} | more


# -- lists ------------------------------------------------------------------------------------------------------------


async def test_bad_tools_of_one_server_hide_no_other_tool(caplog):
    bad = [tool("x" * 5_000), {"name": "without a schema"}, tool("pay\u202e"), tool(7), "text", tool("echo", title=1)]
    with caplog.at_level(logging.WARNING):
        async with client_of(raw("one", json.dumps([*bad, tool("echo")])), raw("two")) as client:
            for _ in range(3):
                names = {each.name for each in await client.list_tools()}
                assert names == {
                    "one_echo",
                    *(f"two_{name}" for name in ("echo", "environment", "arguments", "text", "values")),
                }
            assert text_of(await client.call_tool_mcp("one_echo", {"text": "x"})) == "x"
            assert (await client.call_tool_mcp(f"one_{'x' * 5_000}", {})).is_error
            assert text_of(await client.call_tool_mcp("two_echo", {"text": "y"})) == "y"
    told = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert len(told) == 1
    assert "its name has 5,000 characters. So are 5 more." in told[0]


async def test_a_server_that_answers_no_list_hides_no_other_server(caplog):
    bad = raw("one", json.dumps({"nextCursor": 7}))
    with caplog.at_level(logging.WARNING):
        async with client_of(bad, raw("two")) as client:
            assert {each.name for each in await client.list_tools()} >= {"two_echo"}
            assert text_of(await client.call_tool_mcp("two_echo", {"text": "y"})) == "y"


# -- results ------------------------------------------------------------------------------------------------------------


async def test_a_result_over_the_bound_is_an_error_for_the_model_and_the_other_server_answers_meanwhile():
    async with client_of(raw("one"), raw("two"), most=8 * MIB) as client:
        await client.list_tools()
        large = asyncio.ensure_future(client.call_tool_mcp("one_text", {"bytes": 100 * MIB}))
        answered = 0
        while not large.done():
            assert text_of(await client.call_tool_mcp("two_echo", {"text": "x"})) == "x"
            answered += 1
        assert answered > 2
        result = await large
        assert result.is_error
        assert "An answer of the server one is larger than the proxy reads (8 MiB)" in text_of(result)
        assert "Ask for less at a time" in text_of(result)
        assert text_of(await client.call_tool_mcp("one_echo", {"text": "after"})) == "after"
        for _ in range(2):  # three in a row are refused until the arguments change, like other errors of the caller
            await client.call_tool_mcp("one_text", {"bytes": 100 * MIB})
        again = await client.call_tool_mcp("one_text", {"bytes": 100 * MIB})
        assert "Change the arguments" in text_of(again)
        assert not (await client.call_tool_mcp("one_text", {"bytes": MIB})).is_error


async def test_the_bound_can_be_set():
    async with client_of(raw("one"), most=MIB) as client:
        assert (await client.call_tool_mcp("text", {"bytes": 2 * MIB})).is_error
        assert (await client.call_tool_mcp("values", {"bytes": 2 * MIB})).is_error
        assert not (await client.call_tool_mcp("text", {"bytes": MIB // 2})).is_error


# -- servers that are commands ------------------------------------------------------------------------------------------


async def test_a_server_gets_its_own_variables_and_none_of_the_proxys():
    env = {"SWITCHGEAR_TOKEN": SECRET, "SWITCHGEAR_KAFKA_SASL_PASSWORD": SECRET, "AWS_TOKEN": SECRET, "MINE": "mine"}
    command = (*PROXY, "--name", "raw", "--env", "MINE", "--", *RAW_COMMAND)
    async with over_stdio(command, env=env) as session:
        got = json.loads(text_of(await session.call_tool("environment", {})))
    assert got["MINE"] == "mine"
    assert SECRET not in got.values()
    assert not [name for name in got if name.startswith(("SWITCHGEAR", "AWS", "PYTHONPATH"))]


async def test_a_wrapped_server_gets_the_variables_of_its_entry_and_arguments_show_no_secret(tmp_path):
    config = tmp_path / "mcp.json"
    entry = {"command": RAW_COMMAND[0], "args": list(RAW_COMMAND[1:]), "env": {"API_TOKEN": SECRET}}
    config.write_text(json.dumps({"mcpServers": {"My Server (dev)": entry}}))
    process = await asyncio.create_subprocess_exec(*PROXY, "--wrap", str(config), stdout=asyncio.subprocess.PIPE)
    printed = (await process.communicate())[0].decode()
    assert "My Server (dev): wrapped, with the circuits mcp:My-Server-dev:TOOL." in printed
    (wrapped,) = json.loads(config.read_text())["mcpServers"].values()
    async with over_stdio([wrapped["command"], *wrapped["args"]], env=wrapped["env"]) as session:
        got = json.loads(text_of(await session.call_tool("environment", {})))
        assert got["API_TOKEN"] == SECRET
        ours = psutil.Process().children(recursive=True)
        assert not [each for each in ours if SECRET in " ".join(each.cmdline())]


# -- servers at an address ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:{{port}}/{SECRET}/mcp",
        f"http://127.0.0.1:{{port}}/mcp?key={SECRET}",
        f"http://ana:{SECRET}@127.0.0.1:{{port}}/mcp",
    ],
)
async def test_errors_about_an_address_show_the_model_its_host_alone(url, caplog):
    server = UrlServer("one", url.format(port=any_free_port()), {"X-Key": SECRET})
    with caplog.at_level(logging.DEBUG, "switchgear"):
        async with client_of(server) as client:
            texts = [text_of(await client.call_tool_mcp("search", {})) for _ in range(2)]
            with pytest.raises(MCPError) as raised:
                await client.read_resource("small://note")
    assert "can't be reached at http://127.0.0.1:" in texts[0]
    assert SECRET not in f"{texts} {raised.value} {caplog.text}"


async def test_headers_of_a_client_go_to_the_servers_alone_whose_entry_names_them(tmp_path):
    port, config = any_free_port(), tmp_path / "mcp.json"
    url = f"http://127.0.0.1:{port}/mcp"
    entries = {"none": {"url": url}, "some": {"url": url, "forward_headers": ["Authorization", "X-Api-Key"]}}
    entries["own"] = entries["some"] | {"headers": {"Authorization": "Bearer own"}}
    config.write_text(json.dumps({"mcpServers": entries}))
    front = (*PROXY, "--config", str(config), "--http", "127.0.0.1:0")
    async with running((*SMALL, str(port)), "Uvicorn running|Starting MCP server"), running(front, READY) as found:
        sent = {
            "X-Api-Key": "k",
            "Cookie": "c=1",
            "Proxy-Authorization": "Basic p",
            "X-Other": "o",
            "traceparent": "00-1",
        }
        async with http_client(found[1], {"Authorization": "Bearer a-token", **sent}) as client:
            seen = {name: (await client.call_tool(f"{name}_headers", {})).data for name in entries}
    for got in seen.values():
        assert not {"cookie", "proxy-authorization", "x-other"} & set(got)
        assert got["traceparent"] == "00-1"
    assert not {"authorization", "x-api-key"} & set(seen["none"])
    assert (seen["some"]["authorization"], seen["some"]["x-api-key"]) == ("Bearer a-token", "k")
    assert (seen["own"]["authorization"], seen["own"]["x-api-key"]) == ("Bearer own", "k")


@asynccontextmanager
async def http_client(url, headers):
    from fastmcp.client.transports import StreamableHttpTransport  # noqa: PLC0415

    async with Client(StreamableHttpTransport(url, headers=headers), mode="legacy", init_timeout=LIMIT_S) as client:
        yield client


# -- the proxy's own address --------------------------------------------------------------------------------------------


async def test_abandoned_sessions_have_a_bound_and_end_with_their_processes():
    command = (*PROXY, "--name", "raw", "--http", "127.0.0.1:0", "--max-sessions", "3", "--session-idle", "3")
    async with running((*command, "--", *RAW_COMMAND), READY) as found:
        proxy = next(each for each in psutil.Process().children() if "--max-sessions" in each.cmdline())
        for _ in range(3):
            await abandoned(found[1])
        assert len(proxy.children()) == 3
        with pytest.raises(ExceptionGroup) as raised:
            async with over_http(found[1]):
                pass
        assert raised.group_contains(MCPError, match=r"3 sessions open.*--max-sessions")
        await until(lambda: not proxy.children(), HAPPEN_S)
        async with over_http(found[1]) as session:
            assert text_of(await session.call_tool("echo", {"text": "x"})) == "x"


async def abandoned(url):
    """Open a session as a client does that is killed then."""
    import httpx2  # noqa: PLC0415

    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    headers = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient() as http:
        assert (await http.post(url, json=message, headers=headers, timeout=LIMIT_S)).status_code == 200


async def test_a_token_for_some_tools_sees_and_calls_these_alone(tmp_path):
    tokens, texts, stored = tmp_path / "tokens.toml", {}, ""
    for name, tools in {"some": ["mcp:raw:echo"], "all": []}.items():
        token, texts[name] = new_token(name, [Role.EMIT], tools=tools)
        stored = with_token(stored, token)
    tokens.write_text(stored)
    command = (*PROXY, "--name", "raw", "--http", "127.0.0.1:0", "--", *RAW_COMMAND)
    async with running(command, READY, {"SWITCHGEAR_ACCESS_TOKENS_FILE": str(tokens)}) as found:
        async with (
            http_client(found[1], {"Authorization": f"Bearer {texts['all']}"}) as everything,
            http_client(found[1], {"Authorization": f"Bearer {texts['some']}"}) as some,
        ):
            assert len(await everything.list_tools()) == 5
            assert not (await everything.call_tool_mcp("environment", {})).is_error
            assert [each.name for each in await some.list_tools()] == ["echo"]
            assert text_of(await some.call_tool_mcp("echo", {"text": "x"})) == "x"
            assert (await some.call_tool_mcp("environment", {})).is_error
        with pytest.raises(MCPError):
            async with http_client(found[1], {"Authorization": "Bearer sgt_wrong"}):
                pass
