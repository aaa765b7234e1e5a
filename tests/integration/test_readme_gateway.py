"""README's code blocks for the gateway, with curl and in TypeScript, work against a running `switchgear up`."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from switchgear_cli.local.ports import any_free_port
from tests.support.limits import READY_S
from tests.support.processes import environment
from tests.support.snippets import snippets
from tests.support.typescript import compiled
from tests.support.up import Up

pytestmark = pytest.mark.timeout(600)

CURL = snippets("README.md", "sh")[2]
(TYPESCRIPT,) = snippets("README.md", "ts")
ADDRESS = "http://127.0.0.1:8622"
TOOL = "mcp:news:get_headlines"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with Up(tmp_path_factory.mktemp("readme") / "data", "--no-demo", "--gateway-port", str(any_free_port())) as running:
        yield running


def addressed(up, code):
    """Return the code with the address that the system has printed."""
    url = up.record()["gateway_url"]
    assert f"gateway {url}," in up.child.output()
    assert ADDRESS in code
    return code.replace(ADDRESS, url)


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_example_of_the_readme_stores_two_executions(up):
    command = ["sh", "-c", addressed(up, CURL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"accepted": 2, "rejected": []}
    up.child.wait_until(lambda: up.count() >= 2, "storing both")


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js is not installed")
def test_typescript_example_of_the_readme_opens_the_fleets_circuit_from_two_processes(up):
    program = compiled(f"readme-{up.child.pid}", addressed(up, TYPESCRIPT))

    def run():
        done = subprocess.run(
            ["node", str(program)], capture_output=True, text=True, timeout=READY_S, env=environment(), check=False
        )
        assert done.returncode == 0, done.stderr
        return [line.partition(": ")[2] for line in done.stdout.splitlines()]

    try:
        for _ in range(2):
            lines = run()
            assert lines[:5] == ["the news server is down, no headlines about oil"] * 5, lines
            assert all(
                line.startswith(f"refused. The tool {TOOL} is unavailable (circuit open).") for line in lines[5:]
            )
            assert len(lines) == 8

        def opened():
            found = json.loads(up.ask("circuits", "--json").stdout)["circuits"]
            return [each["state"] for each in found if each["tool_name"] == TOOL] == ["open"]

        up.child.wait_until(opened, "open")
        lines = run()
        assert len(lines) == 8
        assert all(line.startswith(f"refused. The tool {TOOL} is unavailable") for line in lines), lines
    finally:
        program.unlink()
