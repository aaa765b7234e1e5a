"""The official inspector, from npm, reads what ``switchgear mcp`` answers: both transports, both kinds of protocols.

`test_ask.py` asks for each role. Each start of the inspector takes seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys

import pytest

from switchgear_mcp.ask.server import URI
from tests.frameworks.real_servers import INSPECTOR, install_node
from tests.integration.mcp.conftest import QUESTIONS, over_http
from tests.support.processes import environment

_RUN_S = 60

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js is not installed"),
]


@pytest.fixture(scope="module")
def inspector() -> tuple[str, ...]:
    """The command of the inspector."""
    modules = install_node(INSPECTOR) / "node_modules"
    launcher = modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    return str(modules / "node/bin/node"), str(launcher), "--cli"


async def shown(command: tuple[str, ...]) -> dict:
    """Run the inspector, and return what it prints."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_RUN_S):
        printed, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    return json.loads(printed)


async def check_role(target: tuple[str, ...], holder: str) -> None:
    """Look at the tools, an answer, the resource and a command as the inspector shows them."""
    listed = await shown((*target, "--method", "tools/list", "--strict"))
    offered = [each["name"] for each in listed["tools"]]
    assert offered == [*QUESTIONS, *(["operate"] if holder == "operate" else [])]
    call = (*target, "--method", "tools/call", "--tool-name")
    down = await shown((*call, "tools_down"))
    assert down["content"][0]["text"].startswith("search is unavailable since")
    plan = await shown((*call, "plan_check", "--tool-arg", 'tools=["search","archive"]'))
    assert plan["structuredContent"]["go"] is False
    (content,) = (await shown((*target, "--method", "resources/read", "--uri", URI)))["contents"]
    assert '"search"' in content["text"]


async def test_the_inspector_over_standard_input_and_output(inspector, api, tokens):
    variables = {"SWITCHGEAR_API_URL": api, "SWITCHGEAR_TOKEN": tokens["operate"]}
    if path := os.environ.get("PYTHONPATH"):
        variables["PYTHONPATH"] = path
    given = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    server = (sys.executable, "-m", "switchgear_cli", "mcp")
    await check_role((*inspector, "--protocol-era", "modern", *given, *server), "operate")


async def test_the_inspector_over_http(inspector, api, tokens, tmp_path):
    with over_http(api, tmp_path) as (url, _):
        access = ("--header", f"Authorization: Bearer {tokens['read']}")
        target = (*inspector, "--protocol-era", "legacy", "--server-url", url, "--transport", "http", *access)
        await check_role(target, "read")
