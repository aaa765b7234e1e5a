"""docs/howto/installing.md, without a clone: the proxy runs from the wheel, with nothing but its extra, and wraps files with that command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from uv import find_uv_bin

from tests.support.limits import BUILD_S
from tests.support.processes import environment
from tests.support.snippets import REPOSITORY

pytestmark = [pytest.mark.deep, pytest.mark.timeout(500)]
RAW = str(REPOSITORY / "tests/support/raw_mcp_server.py")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", folder],
        cwd=REPOSITORY, check=True, timeout=BUILD_S,
    )  # fmt: skip
    (found,) = folder.glob("switchgear-*.whl")
    return found


@pytest.mark.parametrize("how", ["uvx", "pipx"])
def test_the_proxy_runs_from_the_wheel_and_writes_that_command_into_a_clients_file(how, wheel, tmp_path):
    uvx = [find_uv_bin(), "tool", "run"]
    requirement = f"switchgear[mcp-proxy] @ {wheel.as_uri()}"
    started = {
        "uvx": [*uvx, "--python", sys.executable, "--from", requirement, "switchgear"],
        "pipx": [*uvx, "pipx", "run", "--python", sys.executable, "--spec", requirement, "switchgear"],
    }[how]
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"raw": {"command": sys.executable, "args": ["-S", RAW]}}}))

    def run(*command, given=None):
        return subprocess.run(
            command,
            env=environment(),
            cwd=tmp_path,
            input=given,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=True,
        ).stdout

    printed = run(*started, "mcp-proxy", "--wrap", str(file))
    assert "raw: wrapped. It works, and has 5 tools." in printed
    entry = json.loads(file.read_text())["mcpServers"]["raw"]
    assert requirement in entry["args"]
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    process = subprocess.Popen(
        [entry["command"], *entry["args"]], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        for each in asked:
            process.stdin.write(json.dumps(each) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        assert len(answer["result"]["tools"]) == 5
        process.stdin.close()
    run(*started, "mcp-proxy", "--unwrap", str(file))
    assert json.loads(file.read_text())["mcpServers"]["raw"]["command"] == sys.executable
