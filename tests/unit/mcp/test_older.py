"""A client that makes a handshake, and a server that has only the protocol without one."""

from __future__ import annotations

import asyncio

import pytest

from switchgear_mcp import message as rpc
from switchgear_mcp.errors import ServerDownError
from switchgear_mcp.older import ForOlderClients
from tests.support.mcp_translations import Translated
from tests.support.mcp_worlds import HELLO
from tests.support.virtual_time import in_virtual_time

KEY = "io.modelcontextprotocol/"
REFUSED = {"error": {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"]}}}
SAID = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "x/vendor": {"n": 1.50}},
    "instructions": "Be brief.",
    "_meta": {f"{KEY}serverInfo": {"name": "s", "version": "2"}},
    "resultType": "complete",
}


class Between(Translated):
    def __init__(self, **answers):
        super().__init__(ForOlderClients, {"initialize": REFUSED, "server/discover": {"result": SAID}} | answers)

    async def hello(self):
        await self.tell({"id": "hello", "method": "initialize", "params": HELLO})
        await self.tell({"method": "notifications/initialized"})
        return self.seen.pop(0)[0]

    def last(self, method):
        return self.asked(method)[-1]


async def test_the_handshake_is_made_of_what_the_server_says_and_each_request_has_what_the_client_said():
    both = Between()
    assert (await both.hello())["result"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": SAID["capabilities"],
        "serverInfo": {"name": "s", "version": "2"},
        "instructions": "Be brief.",
    }
    meta = {
        f"{KEY}protocolVersion": "2026-07-28",
        f"{KEY}clientInfo": HELLO["clientInfo"],
        f"{KEY}clientCapabilities": HELLO["capabilities"],
    }
    await both.tell({"id": 5, "method": "logging/setLevel", "params": {"level": "debug"}})
    assert both.seen.pop() == ({"jsonrpc": "2.0", "id": 5, "result": {}}, None)
    params = {"name": "a", "_meta": {"progressToken": 5, "x": 1}}
    await both.tell({"id": 6, "method": "tools/call", "params": params})
    expected = {"progressToken": 5, "x": 1, **meta, f"{KEY}logLevel": "debug"}
    assert both.last("tools/call") == {
        "jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "a", "_meta": expected},
    }  # fmt: skip
    await both.say({"id": 6, "result": {"content": [], "resultType": "complete"}}, 6)
    assert both.seen.pop()[0]["result"] == {"content": [], "resultType": "complete"}
    await both.tell({"id": 7, "method": "ping"})
    assert both.seen.pop()[0]["result"] == {}
    assert "ping" not in [each.get("method") for each in both.got]


@pytest.mark.parametrize(
    "discovered", [REFUSED, {"result": {"supportedVersions": ["2099-01-01"]}}, ServerDownError("it ended the answer")]
)
async def test_a_server_that_has_neither_refuses_with_its_own_words(discovered):
    both = Between(**{"server/discover": discovered})
    assert (await both.hello())["error"] == REFUSED["error"]


@in_virtual_time
async def test_a_server_that_does_not_answer_the_question_refuses_after_two_seconds():
    both = Between(**{"server/discover": None})
    await both.tell({"id": "hello", "method": "initialize", "params": HELLO})
    assert both.seen == []
    await asyncio.sleep(2.1)
    assert both.seen.pop()[0]["error"] == REFUSED["error"]


async def test_messages_of_a_server_that_makes_handshakes_are_not_touched():
    both = Between(initialize={"result": {"protocolVersion": "2025-11-25"}})
    await both.hello()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": 1}}
    await both.tell(asked)
    assert both.got[-1] == asked
    await both.say({"id": 1, "result": {"resultType": "input_required"}})
    assert both.seen[-1][0]["result"] == {"resultType": "input_required"}
    await both.tell({"id": 9, "result": {}})
    assert both.got[-1]["id"] == 9
    assert not [each for each in both.got if each.get("method") == "server/discover"]


WANTED = {
    "resultType": "input_required",
    "requestState": "state-1",
    "inputRequests": {
        "name": {"method": "elicitation/create", "params": {"message": "Who?"}},
        "roots": {"method": "roots/list"},
    },
}


async def asked_for_input(both):
    """Make a call whose answer asks for input. Return the first question."""
    await both.hello()
    await both.tell({"id": 1, "method": "tools/call", "params": {"name": "a"}})
    await both.say({"id": 1, "result": WANTED}, 1)
    await asyncio.sleep(0)
    return both.seen.pop()


async def test_input_that_the_server_wants_is_asked_of_the_client_and_the_call_goes_on():
    both = Between()
    question, related = await asked_for_input(both)
    assert (question["method"], question["params"], related) == ("elicitation/create", {"message": "Who?"}, 1)
    await both.tell({"id": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}})
    await asyncio.sleep(0)
    question, _ = both.seen.pop()
    assert question["method"] == "roots/list"
    await both.tell({"id": question["id"], "result": {"roots": []}})
    await asyncio.sleep(0)
    again = both.last("tools/call")
    assert again["id"] != 1
    assert again["params"]["requestState"] == "state-1"
    assert again["params"]["inputResponses"] == {
        "name": {"action": "accept", "content": {"name": "Ada"}},
        "roots": {"roots": []},
    }
    await both.say({"method": "notifications/progress", "params": {"progressToken": 1}}, again["id"])
    assert both.seen.pop()[1] == 1
    await both.say({"id": again["id"], "result": {"content": []}}, again["id"])
    assert both.seen.pop()[0] == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}


async def test_a_client_that_refuses_a_question_gets_its_own_error_as_the_answer():
    both = Between()
    question, _ = await asked_for_input(both)
    await both.tell({"id": question["id"], "error": {"code": -1, "message": "no"}})
    await asyncio.sleep(0)
    assert both.seen.pop()[0] == {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}}


async def test_a_call_is_cancelled_while_the_client_is_asked_and_after_that():
    both = Between()
    question, _ = await asked_for_input(both)
    note = rpc.notification("notifications/cancelled", {"requestId": 1, "reason": "enough"})
    await both.way.cancel(1, note)
    await both.tell({"id": question["id"], "result": {"action": "accept"}})
    await asyncio.sleep(0)
    assert len([each for each in both.got if each.get("method") == "tools/call"]) == 1
    await both.tell({"id": 2, "method": "tools/call", "params": {"name": "a"}})
    await both.say({"id": 2, "result": {"resultType": "input_required", "requestState": "s"}}, 2)
    await asyncio.sleep(0)
    again = both.last("tools/call")
    assert again["params"] == both.got[-1]["params"]
    assert "inputResponses" not in again["params"]
    await both.way.cancel(2, rpc.notification("notifications/cancelled", {"requestId": 2, "reason": "enough"}))
    number, sent = both.cancelled[-1]
    assert number == sent["params"]["requestId"] == again["id"]
    assert sent["params"]["reason"] == "enough"


async def test_changes_that_the_client_wants_to_know_are_one_subscription():
    both = Between()
    await both.hello()
    first = both.last("subscriptions/listen")
    assert first["params"]["notifications"] == {"toolsListChanged": True}
    await both.say({"method": "notifications/subscriptions/acknowledged", "params": {}}, first["id"])
    assert both.seen == []
    await both.tell({"id": 1, "method": "resources/subscribe", "params": {"uri": "a://b"}})
    assert both.seen.pop()[0]["result"] == {}
    assert both.cancelled[-1][0] == first["id"]
    second = both.last("subscriptions/listen")
    assert second["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]}
    updated = {
        "method": "notifications/resources/updated",
        "params": {"uri": "a://b", "_meta": {f"{KEY}subscriptionId": second["id"]}},
    }
    await both.say(updated, second["id"])
    assert both.seen.pop()[0]["params"]["uri"] == "a://b"
    await both.say({"id": second["id"], "result": {}}, second["id"])
    await both.tell({"id": 2, "method": "resources/unsubscribe", "params": {"uri": "a://b"}})
    assert both.last("subscriptions/listen")["params"]["notifications"]["resourceSubscriptions"] == []
    assert [each for each, _ in both.seen] == [{"jsonrpc": "2.0", "id": 2, "result": {}}]
