"""What a server said last is known to the next process of the proxy."""

from __future__ import annotations

import stat

import pytest

from switchgear_mcp.known import Known, default_folder
from switchgear_mcp.message import Raw
from switchgear_mcp.servers import CommandServer, UrlServer
from tests.support.mcp_worlds import HELLO, TOOLS, World
from tests.support.virtual_time import in_virtual_time

SERVER = CommandServer("small", "a-server", ("--token", "s3cr3t"))
RESULT = Raw(b'{"tools":[{"name":"a","x":1E2}]}')


async def seen_before(folder):
    """Let a proxy see a server, and end."""
    world = World(known_in=folder)
    answer = await world.hello()
    await world.ask(1, "tools/list")
    return answer


def test_an_answer_is_there_for_the_next_process_byte_for_byte_and_for_nobody_else(tmp_path):
    folder = tmp_path / "a" / "b"
    Known([SERVER], folder).keep("small", "tools/list", RESULT)
    assert bytes(Known([SERVER], folder).get("small", "tools/list")) == bytes(RESULT)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "s3cr3t" not in file.name
    other = CommandServer("small", "another")
    assert Known([other], folder).get("small", "tools/list") is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"tools/list":' + b" " * 5_000_000 + b"{}}"])
def test_a_file_that_can_not_be_used_is_as_if_there_were_none(tmp_path, data):
    Known([SERVER], tmp_path).keep("small", "tools/list", RESULT)
    (file,) = tmp_path.iterdir()
    file.write_bytes(data)
    known = Known([SERVER], tmp_path)
    assert known.get("small", "tools/list") is None
    known.keep("small", "tools/list", RESULT)
    assert known.get("small", "tools/list") is not None


def test_nothing_is_kept_of_a_server_that_may_answer_each_client_differently(tmp_path):
    Known([UrlServer("small", "https://h/mcp", {}, ("authorization",))], tmp_path).keep("small", "tools/list", RESULT)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_written_changes_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    known = Known([SERVER], tmp_path / "file")
    known.keep("small", "tools/list", RESULT)
    assert known.get("small", "tools/list") == RESULT


def test_the_folder_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "switchgear" / "mcp"


@in_virtual_time
async def test_a_server_that_still_starts_answers_as_it_did_in_the_last_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    before = await seen_before(folder)
    world = World(known_in=folder)
    world.answers = {}
    assert await world.hello() == before
    assert (await world.ask(1, "tools/list"))["result"] == {"tools": TOOLS}


@in_virtual_time
async def test_a_server_that_is_down_shows_the_list_of_the_last_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    await seen_before(folder)
    world = World(known_in=folder)
    world.up = False
    await world.hello()
    assert (await world.ask(1, "tools/list"))["result"] == {"tools": TOOLS}


@in_virtual_time
async def test_a_client_of_an_older_version_gets_no_answer_of_a_newer_one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    await seen_before(folder)
    world = World(known_in=folder)
    world.answers = {}
    answer = await world.ask(1, "initialize", **HELLO | {"protocolVersion": "2025-03-26"})
    assert answer["result"]["protocolVersion"] == "2025-03-26"
    assert "has not answered yet" in answer["result"]["instructions"]
