"""Ten servers answer behind the proxy byte for byte as they do without it: over both transports, in all versions of MCP.

The versions with a handshake take one path, so each server is asked in the newest one and in one of the others. What the proxy does with a version
doesn't depend on the transport: every other server is asked over HTTP in the versions in which the others are asked over standard streams.

A client without an SDK sends recorded requests. The named differences are those of the page: the list of tools may change, an error
without an id gets that of its request, versions with and without a handshake are translated, the space between the members of a message,
and what is answered without a server that is silent for long.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from switchgear_cli.local.ports import any_free_port
from tests.frameworks.forked import PATIENT
from tests.frameworks.proxies import ROOT, running
from tests.frameworks.raw_client import Members, Wire, over_http, over_stdio
from tests.frameworks.real_servers import OLDER, install_node, install_python

pytestmark = pytest.mark.timeout(550)
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
SERVES = r"serves (http://\S+/mcp)"
EVERY_SERVER = [
    ("ping", {}),
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("vendor/unknown", {"x": 1}),
    ("tools/call", {"name": "no_such_tool", "arguments": {}}),
    ("tools/call", {"name": 7}),
    ("resources/read", {"uri": "no://thing"}),
    ("prompts/get", {"name": "no_such_prompt"}),
    ("logging/setLevel", {"level": "debug"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "no"}, "argument": {"name": "a", "value": "b"}}),
]


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        command: Its command. In this and the others, ``{folder}`` is a folder of its own, new for each run.
        asked: What is asked beside what every server is asked.
        env: Its variables.
        repository: Whether the folder is a repository of git.
    """

    command: Sequence[str]
    asked: Sequence[tuple[str, Mapping[str, Any]]]
    env: Mapping[str, str] = field(default_factory=dict)
    repository: bool = False


def called(tool: str, **arguments: Any) -> tuple[str, Mapping[str, Any]]:
    return "tools/call", {"name": tool, "arguments": arguments}


ZONES = {"source_timezone": "Europe/Oslo", "target_timezone": "Asia/Tokyo"}
ENTITY = {"name": "Ada", "entityType": "person", "observations": ["née Byron \u2028 \u00e9", "x"]}
THOUGHT = {"thought": "a", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
SERVERS = {
    "time": Server(
        ("{python}/mcp-server-time", "--local-timezone", "UTC"),
        [called("convert_time", **ZONES), called("get_current_time", timezone="No/Where"), called("convert_time", time=3)],
    ),
    "git": Server(
        ("{python}/mcp-server-git", "--repository", "{folder}"),
        [called(f"git_{what}", repo_path="{folder}") for what in ("status", "log", "branch", "diff")],
        repository=True,
    ),
    "fetch": Server(
        ("{python}/mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"),
        [called("fetch", url="{page}"), called("fetch", url="http://127.0.0.1:1/"), ("prompts/get", {"name": "fetch"})],
    ),
    "sqlite": Server(
        ("{older}/mcp-server-sqlite", "--db-path", "{folder}/a.db"),
        [
            called("create_table", query="CREATE TABLE a (n REAL, t TEXT)"),
            called("write_query", query="INSERT INTO a VALUES (1e5, 'é'), (NULL, '\u2028')"),
            called("read_query", query="SELECT * FROM a"),
            called("read_query", query="SELEC"),
            called("append_insight", insight="one"),
            ("resources/read", {"uri": "memo://insights"}),
            ("prompts/get", {"name": "mcp-demo", "arguments": {"topic": "x"}}),
        ],
    ),
    "everything": Server(
        ("{node}", "{modules}/@modelcontextprotocol/server-everything/dist/index.js", "stdio"),
        [
            called("echo", message="hé\u2028llo"),
            called("get-sum", a=1e21, b=0.1),
            called("get-tiny-image"),
            called("get-structured-content", location="Chicago"),
            called("get-annotated-message", messageType="error", includeImage=True),
            called("get-resource-links", count=2),
            called("echo"),
            ("prompts/get", {"name": "simple-prompt"}),
            ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Oslo"}}),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": "completable-prompt"}, "argument": {"name": "department", "value": "E"}}),
            ("resources/subscribe", {"uri": "demo://resource/static/document/features.md"}),
        ],
    ),
    "filesystem": Server(
        ("{node}", "{modules}/@modelcontextprotocol/server-filesystem/dist/index.js", "{folder}"),
        [
            called("write_file", path="{folder}/a.txt", content="one\ntwo é"),
            called("read_text_file", path="{folder}/a.txt"),
            called("list_directory", path="{folder}"),
            called("read_text_file", path="/etc/passwd"),
            called("search_files", path="{folder}", pattern="*.txt"),
        ],
    ),
    "memory": Server(
        ("{node}", "{modules}/@modelcontextprotocol/server-memory/dist/index.js"),
        [
            called("create_entities", entities=[ENTITY]),
            called("read_graph"),
            called("search_nodes", query="Byron"),
            called("create_entities", entities="no"),
        ],
        {"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
    ),
    "thinking": Server(
        ("{node}", "{modules}/@modelcontextprotocol/server-sequential-thinking/dist/index.js"),
        [called("sequentialthinking", **THOUGHT), called("sequentialthinking", thought=1)],
    ),
    "playwright": Server(
        ("{node}", "{modules}/@playwright/mcp/cli.js", "--headless", "--browser", "chromium", "--executable-path", "/nonexistent"),
        [called("browser_tabs", action="no"), called("browser_click", target=3)],
    ),
    "raw": Server(
        ("{own_python}", "-S", str(ROOT / "tests/support/raw_mcp_server.py"), '{{"tools": [{{"name":"echo", "x":1E2, "b":1.50}}, 3], "v":null}}'),
        [called("echo", text="é"), called("text", bytes=3_000_000), called("values", bytes=300_000), called("arguments")],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Install the servers. Return where they are."""
    if shutil.which("npm") is None:
        pytest.skip("Node.js is not installed")
    return {
        "python": str(install_python()),
        "older": str(install_python(OLDER)),
        "modules": str(install_node() / "node_modules"),
        "node": shutil.which("node"),
        "own_python": sys.executable,
        "folder": str(tmp_path_factory.mktemp("state") / "a"),
    }


@pytest.fixture
async def page():
    """Serve one page. Return its address."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html><body><article><h1>A page</h1><p>With a text.</p></article></body></html>"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"


def filled(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value with the places in its texts."""
    if isinstance(value, str):
        return value.format_map(places) if "{" in value else value
    if isinstance(value, Mapping):
        return {key: filled(each, places) for key, each in value.items()}
    return [filled(each, places) for each in value] if isinstance(value, list | tuple) else value


def fresh(server: Server, folder: Path) -> None:
    """Make a server's folder new."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if not server.repository:
        return
    when = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-C", str(folder)]
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "the first commit"]):
        subprocess.run([*git, *words], check=True, env={**os.environ, **when})


async def conversation(wire: Wire, version: str, asked: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Members]:
    """Make a handshake if the version has one, and ask everything. Return the answers."""
    client = {"name": "recorded", "version": "1"}
    meta: dict[str, Any] = {}
    if version == MODERN:
        key = "io.modelcontextprotocol/"
        meta = {"_meta": {f"{key}protocolVersion": version, f"{key}clientInfo": client, f"{key}clientCapabilities": {}}}
        discover = {"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": meta}
        first = await wire.ask(discover)
    else:
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        first = await wire.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        await wire.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    found = [first]
    for number, (method, params) in enumerate(asked, 1):
        found.append(await wire.ask({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **meta}}))
    return found


def with_lists_that_change(answer: Members) -> Any:
    """Return what a server says about itself as the proxy passes it on."""
    found = {key: json.loads(value) for key, value in answer.items()}
    if "tools" in found.get("result", {}).get("capabilities", {}):
        found["result"]["capabilities"]["tools"]["listChanged"] = True
    return found


OF_MODERN = {"resultType", "ttlMs", "cacheScope"}


def check(
    direct: Sequence[Members], through: Sequence[Members], where: str, translated: Sequence[Members] = ()
) -> None:
    """Compare the answers of a server with those behind the proxy.

    A server that refuses ``server/discover`` can't be used directly without a handshake. Behind the proxy it answers then as it does
    with one, in the form of the other version.
    """
    if translated and "error" in direct[0]:
        for before, after in zip(translated[1:], through[1:], strict=True):
            found = {key: json.loads(value) for key, value in after.items()}
            found["result"] = {key: each for key, each in found.get("result", {}).items() if key not in OF_MODERN}
            assert found == {"result": {}} | {key: json.loads(value) for key, value in before.items()}, where
        direct, through = direct[:1], through[:1]
    named = [each | {"id": b"%d" % number} if each["id"] == b"null" else each for number, each in enumerate(direct)]
    assert {key: json.loads(value) for key, value in through[0].items()} == with_lists_that_change(named[0]), where
    for before, after in zip(named[1:], through[1:], strict=True):
        assert after == before, where


@pytest.mark.parametrize(
    ("name", "older", "stdio"), zip(SERVERS, itertools.cycle(HANDSHAKES[:-1]), itertools.cycle([True, False]))
)
async def test_a_server_answers_the_same_over_both_transports_in_the_newest_versions_and_an_older_one(
    name, older, stdio, places, page
):
    server, places = SERVERS[name], {**places, "page": page}
    command, env = filled(list(server.command), places), filled(server.env, places)
    asked = [*EVERY_SERVER, *filled(list(server.asked), places)]
    passed = [f"--env={variable}" for variable in env]
    folder = Path(places["folder"])
    handshake: list[Members] = []
    for version, at_stdio in ((older, stdio), (HANDSHAKES[-1], not stdio), (MODERN, stdio)):
        fresh(server, folder)
        async with over_stdio(command, env) as wire:
            direct, notes = await conversation(wire, version, asked), wire.others
        as_before, handshake = (handshake, direct) if version == MODERN else ((), direct)
        fresh(server, folder)
        if at_stdio:
            async with over_stdio((*PATIENT, "--name", "x", *passed, "--", *command), env) as wire:
                check(direct, await conversation(wire, version, asked), f"{version} over stdio", as_before)
                assert as_before or sorted(map(str, wire.others)) == sorted(map(str, notes))
        else:
            in_front = (*PATIENT, "--name", "x", "--http", "127.0.0.1:0", *passed, "--", *command)
            async with running(in_front, SERVES, env) as found, over_http(found[1]) as wire:
                check(direct, await conversation(wire, version, asked), f"{version} over HTTP", as_before)


async def test_a_server_at_an_address_answers_the_same_over_both_transports_in_all_versions(places):
    server, port = SERVERS["everything"], any_free_port()
    command = [*filled(list(server.command), places)[:-1], "streamableHttp"]
    asked, url = [*EVERY_SERVER, *server.asked], f"http://127.0.0.1:{port}/mcp"
    in_front = (*PATIENT, "--name", "x", url, "--http", "127.0.0.1:0")
    async with (
        running(command, "listening on port", {"PORT": str(port)}),
        running(in_front, SERVES) as found,
    ):
        handshake: list[Members] = []
        for version in (*HANDSHAKES, MODERN):
            async with over_http(url) as wire:
                direct = await conversation(wire, version, asked)
            as_before, handshake = (handshake, direct) if version == MODERN else ((), direct)
            async with over_http(found[1]) as wire:
                check(direct, await conversation(wire, version, asked), f"{version} over HTTP", as_before)
            async with over_stdio((*PATIENT, "--name", "x", url)) as wire:
                check(direct, await conversation(wire, version, asked), f"{version} over stdio", as_before)
