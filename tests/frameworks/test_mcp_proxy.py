"""The MCP proxy: what clients ask reaches the server unchanged, and tool calls go through circuits."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import mcp_types as types
import psutil
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import MCPError

from switchgear import BreakerPolicy, FunctionHooks, Switchgear
from switchgear.classify.tool_failure import META_KEY
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.main import run
from switchgear_mcp import hello
from switchgear_mcp.proxy import Proxy
from switchgear_mcp.servers import CommandServer
from switchgear_mcp.watch import Watch
from tests.frameworks.forked import PATIENT, SMALL
from tests.frameworks.in_process import InProcess
from tests.frameworks.proxies import (
    LIMIT_S,
    PROXY,
    environment,
    over_http,
    over_stdio,
    plain,
    running,
    text_of,
    until,
)
from tests.support.limits import ANSWER_S

pytestmark = pytest.mark.timeout(500)
BEHIND_PROXY = (*PATIENT, "--name", "small", "--", *SMALL)


class Talk:
    """Everything that a client asks a server, with what it saw."""

    def __init__(self) -> None:
        self.logs, self.progress, self.questions, self.sampled, self.lists = [], [], [], [], []

    @property
    def callbacks(self):
        async def log(params):
            self.logs.append((params.level, params.data))

        async def elicit(_context, params):
            self.questions.append(plain(params))
            return types.ElicitResult(action="accept", content={"value": "Oslo"})

        async def roots(_context):
            return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])

        return {"logging_callback": log, "elicitation_callback": elicit, "list_roots_callback": roots}

    async def with_small(self, session):
        async def progress(done, total, message):
            self.progress.append((done, total, message))

        answers = {
            "tools": await session.list_tools(),
            "resources": await session.list_resources(),
            "templates": await session.list_resource_templates(),
            "prompts": await session.list_prompts(),
            "note": await session.read_resource("small://note"),
            "note 3": await session.read_resource("small://notes/3"),
            "greet": await session.get_prompt("greet", {"name": "Ada"}),
            "completion": await session.complete(types.PromptReference(name="greet"), {"name": "name", "value": "A"}),
            "everything": await session.call_tool("everything", {}),
            "echo": await session.call_tool("echo", {"text": "hé\u2028llo"}),
            "wrong arguments": await session.call_tool("echo", {"txt": None}),
            "unknown tool": await session.call_tool("nothing", {}),
            "fail": await session.call_tool("fail", {}),
            "ask": await session.call_tool("ask", {}),
            "steps": await session.call_tool("steps", {"count": 3}, progress_callback=progress),
        }
        errors = {}
        for name, call in {"resource": session.read_resource("no://thing"), "prompt": session.get_prompt("no")}.items():
            with pytest.raises(MCPError) as raised:
                await call
            errors[name] = plain(raised.value.error)
        return {name: plain(answer) for name, answer in answers.items()}, errors


async def test_everything_that_a_client_asks_is_the_same_with_and_without_the_proxy():
    direct, behind = Talk(), Talk()
    async with over_stdio(SMALL, **direct.callbacks) as session:
        before = await direct.with_small(session)
        hello = session.initialize_result
    async with over_stdio(BEHIND_PROXY, **behind.callbacks) as session:
        after = await behind.with_small(session)
        assert plain(session.initialize_result) == plain(hello)
    assert after == before
    assert (behind.logs, behind.progress, behind.questions) == (direct.logs, direct.progress, direct.questions)
    assert len(behind.logs) == len(behind.progress) == 3


async def test_a_cancelled_call_is_cancelled_at_the_server_and_the_next_one_works():
    async with over_stdio(BEHIND_PROXY) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await session.call_tool("slow", {"seconds": 3600})
        assert text_of(await session.call_tool("echo", {"text": "x"})) == "x"


async def test_a_client_that_prefers_the_protocol_without_a_handshake_speaks_it_with_a_server_that_has_it():
    at_stdio = StdioTransport(BEHIND_PROXY[0], list(BEHIND_PROXY[1:]), env=environment())
    command = (*PATIENT, "--name", "small", "--http", "127.0.0.1:0", "--", *SMALL)
    async with running(command, r"serves (http://\S+/mcp)") as found:
        for transport in (at_stdio, found[1]):
            async with Client(transport, mode="auto", init_timeout=LIMIT_S) as client:
                assert client.protocol_version == "2026-07-28"
                assert (await client.call_tool("echo", {"text": "x"})).data == "x"
    await at_stdio.close()


def policy(**more):
    return BreakerPolicy(**({"consecutive_failures": 2, "wait_duration_in_open_state_s": 2} | more))


@pytest.mark.parametrize("hides", [False, True])
async def test_an_open_circuit_refuses_calls_and_the_list_stays_unless_it_hides_the_tool_until_its_wait_ends(
    hides, monkeypatch
):
    monkeypatch.setattr(hello, "HELLO_LIMIT_S", LIMIT_S)
    changes, told = [], []
    watch = Watch()
    gear = Switchgear.local(
        local_policies=policy(),
        outages_in_text=["mcp:small:fail"],
        tool_list="hide" if hides else "stable",
        hide_after_s=0,
        hooks=[FunctionHooks(on_transition=watch.on_transition), FunctionHooks(on_transition=changes.append)],
    )
    proxy = Proxy([CommandServer("small", SMALL[0], SMALL[1:])], gear)

    async def message(received):
        told.append(received)

    watching = asyncio.create_task(watch.run(proxy))
    try:
        async with Client(InProcess(proxy), mode="legacy", message_handler=message) as client:
            assert "fail" in {tool.name for tool in await client.list_tools()}
            for _ in range(2):
                result = await client.call_tool_mcp("fail", {"text": "503 Service Unavailable"})
                assert META_KEY not in (result.meta or {})
            assert changes[0].circuit_id == "mcp:small:fail"
            refused = await client.call_tool_mcp("fail", {})
            assert refused.is_error
            assert refused.meta[META_KEY]["code"] == "circuit_open"
            assert "fail" in text_of(refused)
            if hides:
                await until(lambda: len(told) == 1, ANSWER_S)
            assert ("fail" in {tool.name for tool in await client.list_tools()}) == (not hides)
            assert (await client.call_tool("echo", {"text": "x"})).data == "x"
            if hides:
                await until(lambda: len(told) == 2, ANSWER_S)  # the wait has ended, without an event
            else:
                await asyncio.sleep(3)
            assert "fail" in {tool.name for tool in await client.list_tools()}
        assert [type(each).__name__ for each in told] == ["ToolListChangedNotification"] * (2 if hides else 0)
    finally:
        watching.cancel()


async def test_a_fallback_of_the_same_server_answers_while_the_circuit_is_open(tmp_path):
    policies = tmp_path / "policies.toml"
    policies.write_text("[default]\nconsecutive_failures = 2\n")
    command = (*PATIENT, "--name", "small", "--fallback", "fail=backup", "--policy-file", str(policies), "--", *SMALL)
    async with over_stdio(command, env={"SWITCHGEAR_OUTAGES_IN_TEXT": "mcp:small:*"}) as session:
        for _ in range(2):
            await session.call_tool("fail", {"text": "503 Service Unavailable"})
        assert text_of(await session.call_tool("fail", {})) == "from the backup"


async def test_servers_of_a_configuration_become_one_with_their_names_in_front(tmp_path):
    config = tmp_path / "mcp.json"
    entry = {"command": SMALL[0], "args": SMALL[1:], "env": {"GREETING": "${GREETING:-hi}"}}
    config.write_text(
        json.dumps({"mcpServers": {"one": entry, "two": entry, "off": {"disabled": True, "command": "x"}}})
    )
    async with over_stdio((*PATIENT, "--config", str(config))) as session:
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert {"one_echo", "two_echo"} <= names
        first, second = await session.call_tool("one_pid", {}), await session.call_tool("two_pid", {})
        assert text_of(first) != text_of(second)
        assert {prompt.name for prompt in (await session.list_prompts()).prompts} == {"one_greet", "two_greet"}
        assert "Ada" in str(await session.get_prompt("two_greet", {"name": "Ada"}))
        assert (await session.read_resource("small://note")).contents[0].text == "a note"
        reference = types.PromptReference(name="one_greet")
        assert (await session.complete(reference, {"name": "name", "value": "A"})).completion.values == ["A-1", "A-2"]
    async with over_stdio((*PATIENT, "--config", str(config), "--only", "two")) as session:
        assert "echo" in {tool.name for tool in (await session.list_tools()).tools}


async def test_http_in_front_of_http_passes_headers_on_and_each_client_has_its_own_session():
    port = any_free_port()
    small = running((*SMALL, str(port)), "Uvicorn running|Starting MCP server")
    command = (
        *PATIENT,
        "--name",
        "small",
        f"http://127.0.0.1:{port}/mcp",
        "--http",
        "127.0.0.1:0",
        "--header-env",
        "MINE",
        "--forward-header",
        "Authorization",
    )
    async with small, running(command, r"serves (http://\S+/mcp)", {"MINE": "X-Own: own"}) as found:
        url = found[1]
        direct, behind = Talk(), Talk()
        async with over_http(f"http://127.0.0.1:{port}/mcp", **direct.callbacks) as session:
            before = await direct.with_small(session)
        async with over_http(url, **behind.callbacks) as session, over_http(url) as other:
            assert await behind.with_small(session) == before
            assert text_of(await other.call_tool("echo", {"text": "x"})) == "x"
        assert (behind.logs, behind.progress) == (direct.logs, direct.progress)
        async with Client(url, mode="legacy", auth="a-token") as client:
            seen = (await client.call_tool("headers", {})).data
        assert seen["authorization"] == "Bearer a-token"
        assert seen["x-own"] == "own"


async def test_http_in_front_of_a_command_gives_each_client_a_process_and_ends_it_with_the_session():
    command = (*PATIENT, "--name", "small", "--http", "127.0.0.1:0", "--", *SMALL)
    async with running(command, r"serves (http://\S+/mcp)") as found:
        async with over_http(found[1]) as one, over_http(found[1]) as two:
            pids = [int(text_of(await each.call_tool("pid", {}))) for each in (one, two)]
            assert pids[0] != pids[1]
        await until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--name", "x", "--", "no-such-program"],
            "The server x can't be started: the command 'no-such-program' was not found.",
        ),
        (["--", "python"], "The server needs a name."),
        (
            ["--name", "x"],
            "The proxy needs a server: a command after --, an address or --config, and one of them only.",
        ),
        (
            ["--name", "x", "ftp://host/mcp"],
            "The server x can't be started: the command 'ftp://host/mcp' was not found.",
        ),
        (["--name", "x", "--url", "host/secret"], "'host…' is not an address."),
        (["--name", "x", "http://h/mcp", "--http", "0.0.0.0:8765"], "Other machines can reach 0.0.0.0:8765"),
        (["--name", "x", "--env", "A=secret", "--", "python"], "--env takes the name of a variable, without a value."),
        (["--name", "x", "http://h/mcp", "--env", "A"], "--env is for a server that is a command."),
        (["--name", "x", "http://h/mcp", "--forward-header", "host"], "belongs to the connection"),
        (
            ["--name", "x", "--forward-header", "authorization", "--", "python"],
            "Headers are for a server at an address.",
        ),
        (["--name", "x", "http://h/mcp", "--header", "secret"], "A header has no colon."),
        (
            ["--name", "x", "http://h/mcp", "--header-env", "NOT_SET"],
            "--header-env names the environment variable NOT_SET, which is not set.",
        ),
        (["--name", "x", "http://h/mcp", "--http", "8765"], "--http '8765' is not a host and a port."),
        (["--name", "x", "http://h/mcp", "--fallback", "search"], "--fallback 'search' is not TOOL=OTHER."),
        (["--config", "bad.json"], "bad.json is not valid JSON"),
        (["--config", "none.json"], "none.json can't be read: No such file or directory."),
        (["--config", "good.json", "--only", "gitub"], "good.json has no server 'gitub'."),
        (["--wrap", "good.json", "--unwrap", "good.json"], "--wrap and --unwrap only rewrite a file."),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_nothing_on_standard_output(
    words, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"mcpServers": ')
    (tmp_path / "good.json").write_text('{"mcpServers": {"github": {"command": "python"}}}')
    assert run(["mcp-proxy", *words]) in {1, 2}
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert "Traceback" not in printed.err
    assert "secret" not in printed.err
    assert printed.out == ""


def test_without_what_the_extra_brings_the_command_names_the_extra():
    code = (
        "import sys; sys.modules['httpx2'] = None; from switchgear_cli.main import run;"
        " sys.exit(run(['mcp-proxy', '--name', 'x', 'http://h/mcp']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 1
    assert "switchgear[mcp-proxy]" in done.stderr
    assert "Traceback" not in done.stderr


async def test_wrapping_succeeds_if_a_server_runs_behind_the_proxy_afterwards(tmp_path):
    works, broken = {"command": SMALL[0], "args": SMALL[1:]}, {"command": "/nonexistent"}
    config = tmp_path / "mcp.json"

    async def wrap(*more: str) -> tuple[int, str]:
        done = await asyncio.to_thread(
            subprocess.run, [*PROXY, "--wrap", str(config), *more],
            env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    for servers, code in (({"a": broken}, 1), ({"a": broken, "b": works}, 0)):
        config.write_text(json.dumps({"mcpServers": servers}))
        found, said = await wrap()
        assert found == code, said
    assert (await wrap())[0] == 0, "b runs behind the proxy already"
    found, said = await wrap("--env", "TOKEN")
    assert found == 2
    assert "What a server needs is in its entry" in said


async def test_a_wrapped_configuration_starts_the_server_behind_the_proxy_until_it_is_unwrapped(tmp_path):
    config = tmp_path / "mcp.json"
    before = json.dumps({"mcpServers": {"small": {"command": SMALL[0], "args": SMALL[1:]}}}, indent=2)
    config.write_text(before)

    def proxy(*words: str) -> str:
        return subprocess.run(
            [*PROXY, *words], env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=True
        ).stdout

    assert "small: wrapped" in await asyncio.to_thread(proxy, "--wrap", str(config))
    entry = json.loads(config.read_text())["mcpServers"]["small"]
    assert entry["args"][-3 - len(SMALL) :] == ["--name", "small", "--", *SMALL]
    assert Path(entry["command"]).is_absolute() or shutil.which(entry["command"])
    async with over_stdio([entry["command"], *entry["args"]]) as session:
        assert text_of(await session.call_tool("echo", {"text": "hello"})) == "hello"
    assert "small: unwrapped" in await asyncio.to_thread(proxy, "--unwrap", str(config))
    assert config.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["mcp.json"]
