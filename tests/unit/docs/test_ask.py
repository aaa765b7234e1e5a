"""The page about what agents ask shows lines that clients take, and all tools of the server."""

from __future__ import annotations

import json
import re
import shlex

from switchgear_mcp.ask.commands import Commands
from switchgear_mcp.ask.http import IDLE_S, MOST_SESSIONS
from switchgear_mcp.ask.questions import MOST_IN_PLAN
from switchgear_mcp.ask.watches import EVERY_S
from switchgear_mcp.ask.words import MOST_NAMED
from tests.support.ask_api import ScriptedApi, ask_server
from tests.support.snippets import REPOSITORY

PAGE = (REPOSITORY / "docs" / "guide" / "ask.md").read_text()
ENTRY = {"command": "switchgear", "args": ["mcp"]}


def row(client: str) -> str:
    (found,) = re.findall(rf"^\| {client}[^|]*\| `(.*)` \|$", PAGE, re.MULTILINE)
    return str(found)


def test_each_client_gets_the_same_command():
    for client, program in (("Claude Code", "claude"), ("Codex", "codex")):
        assert shlex.split(row(client)) == [program, "mcp", "add", "switchgear", "--", *ENTRY["command"].split(), "mcp"]
    code, flag, entry = shlex.split(row("VS Code"))
    assert (code, flag, json.loads(entry)) == ("code", "--add-mcp", {"name": "switchgear", **ENTRY})
    assert json.loads(row("Cursor")) == {"mcpServers": {"switchgear": ENTRY}}


def test_the_table_has_every_tool():
    table = PAGE.partition("## What an agent can ask")[2].partition("\n\nAn answer")[0]
    shown = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert shown == [*ask_server(ScriptedApi())._by_name, Commands.name]


def test_the_numbers_are_those_of_the_code():
    assert f"within {EVERY_S:g} seconds" in PAGE
    assert f"names {MOST_NAMED} tools, and a plan has {MOST_IN_PLAN}" in PAGE
    assert f"{MOST_SESSIONS} sessions, each for {IDLE_S / 60:g} minutes" in PAGE
