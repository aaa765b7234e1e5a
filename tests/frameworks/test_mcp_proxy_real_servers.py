"""Servers of other people are the same with and without the MCP proxy, for the official clients in Python and TypeScript.

`test_mcp_proxy_differential.py` asks more servers without an SDK.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import MCPError

from switchgear_cli.local.ports import any_free_port
from tests.frameworks.forked import PATIENT, SMALL
from tests.frameworks.proxies import environment, over_stdio, plain, running
from tests.frameworks.real_servers import install_node, install_python
from tests.support.limits import FACTOR, READY_S

CLIENT = Path(__file__).with_name("clients") / "everything.mjs"
CONFORMING = (sys.executable, str(Path(__file__).with_name("servers") / "conforming.py"))
SERVES = r"serves (http://\S+/mcp)"
NODE = shutil.which("node") or "node"
pytestmark = pytest.mark.timeout(400)
needs_node = pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js is not installed")


@pytest.fixture(scope="module")
def python_servers():
    return install_python()


@pytest.fixture(scope="module")
def node_folder():
    return install_node()


def behind(name, command):
    return (*PATIENT, "--name", name, "--", *command)


async def answers(command, calls):
    """Return all that a server says about itself, and its answers to calls."""
    async with over_stdio(command) as session:
        found = [session.initialize_result, await session.list_tools()]
        for tool, given in calls:
            try:
                found.append(await session.call_tool(tool, given))
            except MCPError as error:
                found.append(error.error)
        if session.initialize_result.capabilities.prompts is not None:
            found.append(await session.list_prompts())
    return [plain(each) for each in found]


def with_lists_that_change(answer):
    """Return a handshake's answer as the proxy gives it: the list of tools may change, because circuits open."""
    answer["capabilities"]["tools"]["listChanged"] = True
    return answer


async def test_the_server_of_times_is_the_same_behind_the_proxy(python_servers):
    command = (str(python_servers / "mcp-server-time"), "--local-timezone", "UTC")
    convert = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    calls = [("convert_time", convert), ("convert_time", {"time": "12:00"}), ("no_such_tool", {})]
    hello, *direct = await answers(command, calls)
    assert await answers(behind("time", command), calls) == [with_lists_that_change(hello), *direct]
    assert "21:00" in json.dumps(direct)


DEFAULTS = {"isError": False, "mode": "form"}


def normal(value):
    """Leave out what differs from run to run, and members that have their default."""
    if isinstance(value, dict):
        return {key: normal(each) for key, each in value.items() if key not in DEFAULTS or each != DEFAULTS[key]}
    if isinstance(value, list):
        return [normal(each) for each in value]
    return re.sub(r"\d+:\d\d:\d\d [AP]M", "TIME", value) if isinstance(value, str) else value


@needs_node
async def test_every_feature_of_server_everything_is_the_same_for_the_typescript_client(node_folder):
    server = (NODE, str(node_folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio")

    def seen(command):
        done = subprocess.run(
            [NODE, str(CLIENT), str(node_folder), *command],
            env=environment(), capture_output=True, text=True, timeout=180 * FACTOR, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    direct, through = seen(server), seen(behind("everything", server))
    for each in (direct, through):
        progress = [step["progress"] for step in each.pop("progress")]
        assert progress in ([1, 2, 3], [1, 2, 3, 4])  # the client may drop the last, which comes with the answer
    assert normal(through) == normal(direct)
    assert through["notified"] == {"log": True, "updated": True}
    assert [request["method"] for request in through["requests"]] == ["sampling/createMessage", "elicitation/create"]
    assert through["answers"]["cancelled"]["error"].endswith("enough")


SHOWN = (
    ("tools/list",),
    ("tools/call", "--tool-name", "echo", "--tool-arg", "text=hé"),
    ("tools/call", "--tool-name", "fail"),
    ("prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Ada"),
)
"""Each start of the inspector takes 3 s. The requests of all methods are in ``test_mcp_proxy_differential.py``."""


@needs_node
@pytest.mark.parametrize("era", ["legacy", "modern"])  # over standard streams and over HTTP
async def test_the_inspector_shows_the_same_with_and_without_the_proxy(era, node_folder, tmp_path):
    modules, port = node_folder / "node_modules", any_free_port()
    inspector = (
        str(modules / "node/bin/node"), str(modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
        "--cli", "--protocol-era", era,
    )  # fmt: skip
    url, config = f"http://127.0.0.1:{port}/mcp", tmp_path / "mcp.json"
    through = behind("small", SMALL)
    entries = {name: {"command": each[0], "args": each[1:]} for name, each in {"a": SMALL, "b": through}.items()}
    config.write_text(json.dumps({"mcpServers": entries}))

    async def shown(*target):
        found = []
        for words in SHOWN:
            process = await asyncio.create_subprocess_exec(
                *inspector, *target, "--method", *words, env=environment(),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            async with asyncio.timeout(READY_S):
                printed, _ = await process.communicate()
            found.append((process.returncode, printed.decode()))
        return found

    if era == "legacy":
        direct = await shown("--config", str(config), "--server", "a")
        assert await shown("--config", str(config), "--server", "b") == direct
    else:
        command = (*PATIENT, "--name", "small", url, "--http", "127.0.0.1:0")
        async with running((*SMALL, str(port)), "Uvicorn running"), running(command, SERVES) as found:
            direct = await shown("--server-url", url, "--transport", "http")
            assert await shown("--server-url", found[1], "--transport", "http") == direct
    assert "hé" in direct[1][1]


@needs_node
@pytest.mark.parametrize(("version", "least"), [("2025-11-25", 25), ("2026-07-28", 19)])
async def test_the_conformance_suite_has_the_same_result_with_and_without_the_proxy(version, least, node_folder):
    modules = node_folder / "node_modules"
    suite = (
        str(modules / "node/bin/node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js"),
        "server", "--spec-version", version, "--url",
    )  # fmt: skip
    port = any_free_port()

    async def result(url):
        process = await asyncio.create_subprocess_exec(
            *suite, url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=node_folder
        )
        assert process.stdout is not None
        async with asyncio.timeout(170 * FACTOR):
            text = (await process.stdout.read()).decode()
            await process.wait()
        return set(re.findall(r"^\s*([✓✗].*)$", text.partition("SUMMARY")[2], re.MULTILINE)), text

    command = (*PATIENT, "--name", "conforming", f"http://127.0.0.1:{port}/mcp", "--http", "127.0.0.1:0")
    async with running((*CONFORMING, str(port)), "Uvicorn running|Starting MCP"), running(command, SERVES) as found:
        direct, printed = await result(f"http://127.0.0.1:{port}/mcp")
        assert len([line for line in direct if line.startswith("✓")]) >= least, printed
        through, _ = await result(found[1])
    ours = "✓ dns-rebinding-protection: 2 passed, 0 failed"  # the server has no such protection, and the proxy has
    assert ours in through
    assert through - {ours} == {line for line in direct if "dns-rebinding-protection" not in line}
