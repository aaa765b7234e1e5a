"""What the pages about integrations show is what the commands do."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from switchgear_cli.hook.calls import Options
from switchgear_cli.hook.install import section
from switchgear_cli.hook.state import State
from switchgear_cli.own_command import own_command
from switchgear_gateway.hooks import PATH
from switchgear_mcp.servers import of_file
from tests.frameworks.environments import TABLE, with_uses
from tests.support.limits import READY_S
from tests.support.processes import environment
from tests.support.snippets import REPOSITORY, snippets

CLAUDE_CODE = "docs/integrations/claude-code.md"
MCP_PROXY = "docs/integrations/mcp-proxy.md"


def test_page_about_integrations_has_the_table_of_adapters_that_make_adapters_writes():
    page = TABLE.read_text()
    assert page == with_uses(page)


def test_page_about_the_mcp_proxy_shows_entries_that_the_proxy_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "x")
    found = []
    for number, shown in enumerate(snippets(MCP_PROXY, "json")):
        path = tmp_path / f"{number}.json"
        path.write_text(shown.replace('"npx"', json.dumps(sys.executable)))
        found += of_file(path)
    assert found[0].env == {"GITHUB_TOKEN": "x"}
    assert found[1].forward_headers == ("authorization",)


def test_page_about_claude_code_shows_the_hooks_that_are_installed():
    shown, _ = snippets(CLAUDE_CODE, "json")
    installed = json.dumps({"hooks": section(Options())})
    command = json.dumps(" ".join(own_command()))[1:-1]
    assert json.loads(shown) == json.loads(installed.replace(command, "switchgear"))


def test_page_about_claude_code_shows_http_hooks_for_the_events_that_the_gateway_answers():
    _, shown = snippets(CLAUDE_CODE, "json")
    over_http = json.loads(shown)["hooks"]
    by_command = section(Options())
    assert set(over_http) == set(by_command) - {"SessionEnd"}  # a gateway keeps nothing about a session
    for event, (group,) in over_http.items():
        assert group.get("matcher") == by_command[event][0].get("matcher")
        (handler,) = group["hooks"]
        assert (handler["type"], handler["url"]) == ("http", f"http://localhost:8622{PATH}")
        assert handler["headers"] == {"Authorization": f"Bearer ${handler['allowedEnvVars'][0]}"}


@pytest.mark.slow
def test_shell_commands_of_the_page_about_claude_code_install_and_answer(tmp_path):
    script = f'switchgear() {{ "{sys.executable}" -m switchgear_cli "$@"; }}\n'
    script += "\n".join(snippets(CLAUDE_CODE, "sh"))
    paths = os.pathsep.join(str(REPOSITORY / each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep))
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=tmp_path, env=environment(extra={"PYTHONPATH": paths, "XDG_STATE_HOME": str(tmp_path)}),
        capture_output=True, text=True, timeout=READY_S, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        f"The hooks are in {tmp_path}/.claude/settings.json. New sessions of Claude Code use them."
    ]
    assert done.stderr == ""
    with State(tmp_path / "switchgear" / "claude-code-2.db") as state:
        assert state.circuits() == []
