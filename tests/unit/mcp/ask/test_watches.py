"""Updates of the resource, for clients of both protocols."""

from __future__ import annotations

import asyncio
import json

import httpx
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from switchgear_mcp.ask.callers import Caller
from switchgear_mcp.ask.errors import AskError
from switchgear_mcp.ask.server import URI
from switchgear_mcp.ask.watches import Watches
from tests.support.ask_api import ScriptedApi, ask_server, circuit, connected
from tests.support.limits import ANSWER_S
from tests.support.virtual_time import in_virtual_time

# The SDK warns of the protocol with a handshake, which most clients have.
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")


class Look:
    """What callers see."""

    def __init__(self):
        self.seen, self.looks, self.fails = {}, 0, False

    async def __call__(self, caller):
        self.looks += 1
        await asyncio.sleep(0)
        if self.fails:
            raise AskError("away")
        return self.seen.get(caller.token, "as before")


@in_virtual_time
async def test_a_change_is_told_once_to_each_subscriber_of_that_token():
    look, told = Look(), []
    watches = Watches(look, every_s=5)
    for caller, name in [("a", "one"), ("a", "two"), ("b", "three")]:
        watches.subscribe(Caller(caller), lambda name=name: told.append(name))
    await asyncio.sleep(1)
    assert look.looks == 2, "subscribers with one token share a watch"
    look.seen["a"] = "changed"
    await asyncio.sleep(20)
    assert told == ["one", "two"]


@in_virtual_time
async def test_the_last_one_who_leaves_ends_the_watch():
    look = Look()
    watches = Watches(look, every_s=5)
    ends = [watches.subscribe(Caller("a"), lambda: None) for _ in range(2)]
    await asyncio.sleep(6)
    for end in (*ends, *ends):
        end()
    before = look.looks
    await asyncio.sleep(60)
    assert (look.looks, len(watches)) == (before, 0)


@in_virtual_time
async def test_an_api_that_is_away_changes_nothing():
    look, told = Look(), []
    watches = Watches(look, every_s=5)
    watches.subscribe(Caller("a"), lambda: told.append(1))
    await asyncio.sleep(1)
    look.fails = True
    await asyncio.sleep(20)
    look.fails = False
    await asyncio.sleep(20)
    assert told == []


@in_virtual_time
async def test_subscriptions_have_a_bound_and_one_token_has_its_share():
    watches = Watches(Look(), most=3, most_of_a_caller=2)
    watches.subscribe(Caller("a"), lambda: None)
    end = watches.subscribe(Caller("a"), lambda: None)
    with pytest.raises(AskError, match="Too many subscriptions"):
        watches.subscribe(Caller("a"), lambda: None)
    watches.subscribe(Caller("b"), lambda: None)
    with pytest.raises(AskError, match="Too many subscriptions"):
        watches.subscribe(Caller("c"), lambda: None)
    end()
    watches.subscribe(Caller("c"), lambda: None)


async def updates(scripted, mode, *, change):
    """Subscribe, change something, and return what is told, then what is told after the end."""
    told, server = asyncio.Queue(), ask_server(scripted)

    async def message(found):
        if isinstance(found, types.ResourceUpdatedNotification):
            await told.put(found.params.uri)

    async with connected(server, mode, message_handler=message) as client:
        if mode == "legacy":
            await client.session.subscribe_resource(URI)
            await client.session.subscribe_resource(URI)
            await asyncio.sleep(0.05)
            change()
            found = await asyncio.wait_for(told.get(), ANSWER_S)
            await client.session.unsubscribe_resource(URI)
        else:
            async with client.listen(resource_subscriptions=[URI]) as stream:
                await asyncio.sleep(0.05)
                change()
                found = (await asyncio.wait_for(anext(aiter(stream)), ANSWER_S)).uri
        await asyncio.sleep(0.05)
        assert len(server._watches) == 0
    return found


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_subscriber_learns_of_a_change(mode):
    scripted = ScriptedApi()
    assert await updates(scripted, mode, change=lambda: scripted.circuits.append(circuit())) == URI


async def test_a_client_that_goes_away_without_a_word_ends_its_watch():
    server = ask_server(ScriptedApi())
    async with connected(server, "legacy") as client:
        await client.session.subscribe_resource(URI)
        assert len(server._watches) == 1
    assert len(server._watches) == 0


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_the_resource_says_what_is_down(mode):
    async with connected(ask_server(ScriptedApi(circuit(), circuit("mail", "closed"))), mode) as client:
        (listed,) = (await client.list_resources()).resources
        (content,) = (await client.read_resource(listed.uri)).contents
        with pytest.raises(MCPError, match="There is no resource file:///etc/passwd"):
            await client.read_resource("file:///etc/passwd")
    found = json.loads(content.text)
    assert [each["tool"] for each in found["down"]] == ["search"]
    assert found["note"] == "All other tools can be called."


async def test_an_unreadable_resource_is_an_error_with_its_reason():
    scripted = ScriptedApi()
    scripted.answers["/v1/circuits"] = lambda: httpx.Response(503, json={"detail": "Kafka is away."})
    async with connected(ask_server(scripted)) as client:
        with pytest.raises(MCPError, match="can't answer now"):
            await client.read_resource(URI)


async def test_nobody_subscribes_without_a_token_that_the_api_takes():
    async with connected(ask_server(ScriptedApi(), "sgt_gone"), "legacy") as client:
        with pytest.raises(MCPError, match="does not accept the token"):
            await client.session.subscribe_resource(URI)
