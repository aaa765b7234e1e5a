"""Several servers become one: each request goes to the server that it is for, and a slow one stops no other."""

from __future__ import annotations

import asyncio
import json

import pytest

from switchgear_http.principal import Principal, Role
from tests.support.mcp_worlds import ANSWERS, World
from tests.support.virtual_time import in_virtual_time


@pytest.fixture
def world():
    return World(names=("one", "two"))


def server(world, name):
    """Return the last connection of a server."""
    return [each for each in world.connections if each.name == name][-1]


def names(answer, key="tools"):
    return [each["name"] for each in answer["result"][key]]


@in_virtual_time
async def test_tools_and_prompts_have_the_names_of_their_servers_in_front_and_calls_reach_them(world):
    world.own["two"] = ANSWERS | {
        "prompts/list": {"result": {"prompts": [{"name": "p", "x": 1}]}},
        "prompts/get": {"result": {"messages": []}},
        "tools/call": {"result": {"content": [], "from": "two"}},
    }
    world.answers["prompts/list"] = {"error": {"code": -32601, "message": "Method not found"}}
    await world.hello()
    assert names(await world.ask(1, "tools/list")) == ["one_echo", "one_search", "two_echo", "two_search"]
    assert (await world.ask(2, "prompts/list"))["result"]["prompts"] == [{"name": "two_p", "x": 1}]
    assert (await world.call(3, "two_echo", a=1))["result"]["from"] == "two"
    assert server(world, "two").asked("tools/call")[0]["params"] == {"name": "echo", "arguments": {"a": 1}}
    assert (await world.ask(4, "prompts/get", name="two_p"))["result"] == {"messages": []}
    assert server(world, "two").asked("prompts/get")[0]["params"]["name"] == "p"
    assert world.outcomes[-1].tool == "mcp:two:echo"


@in_virtual_time
async def test_a_server_that_hangs_stops_neither_the_handshake_nor_the_lists_of_the_others(world):
    world.own["two"] = {}
    loop = asyncio.get_running_loop()
    began = loop.time()
    await world.hello()
    assert names(await world.ask(1, "tools/list")) == ["one_echo", "one_search"]
    assert loop.time() - began < 9
    world.own.clear()
    hello = server(world, "two").asked("initialize")[0]
    await server(world, "two").say({"id": hello["id"]} | ANSWERS["initialize"])
    await asyncio.sleep(1)
    assert json.loads(world.seen[0])["method"] == "notifications/tools/list_changed"
    assert names(await world.ask(2, "tools/list")) == ["one_echo", "one_search", "two_echo", "two_search"]


@in_virtual_time
async def test_a_server_that_hangs_shows_its_tools_of_the_last_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    before = World(names=("one", "two"), known_in=folder)
    await before.hello()
    listed = names(await before.ask(1, "tools/list"))
    world = World(names=("one", "two"), known_in=folder)
    world.own["two"] = {}
    await world.hello()
    assert names(await world.ask(1, "tools/list")) == listed


@in_virtual_time
async def test_the_last_list_of_a_server_that_is_down_has_only_the_tools_of_the_clients_token(world):
    await world.hello()
    await world.ask(1, "tools/list")
    world.up = False
    for each in world.connections:
        each.end()
    await asyncio.sleep(1)
    world.link.principal = Principal(name="p", roles=frozenset({Role.EMIT}), tools=("mcp:two:echo",))
    assert names(await world.ask(2, "tools/list")) == ["two_echo"]
