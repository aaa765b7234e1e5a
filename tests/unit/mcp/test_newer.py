"""A client that makes no handshake, and a server that has only the protocols with one."""

from __future__ import annotations

import asyncio

import pytest

from switchgear_mcp import message as rpc
from switchgear_mcp.errors import ServerDownError
from switchgear_mcp.newer import ForNewerClients
from tests.support.mcp_translations import Translated
from tests.support.mcp_worlds import ANSWERS, HELLO
from tests.support.virtual_time import in_virtual_time

KEY = "io.modelcontextprotocol/"
META = {
    f"{KEY}protocolVersion": "2026-07-28",
    f"{KEY}clientInfo": HELLO["clientInfo"],
    f"{KEY}clientCapabilities": {"elicitation": {}},
}
UNKNOWN = {"error": {"code": -32601, "message": "Method not found"}}
SAID = ANSWERS["initialize"]["result"] | {"capabilities": {"tools": {}, "logging": {}}, "instructions": "Be brief."}


class Between(Translated):
    def __init__(self, **answers):
        super().__init__(ForNewerClients, {"initialize": {"result": SAID}, "server/discover": UNKNOWN} | answers)

    async def ask(self, number, method, meta=None, **params):
        await self.tell({"id": number, "method": method, "params": {**params, "_meta": META | (meta or {})}})


async def test_the_proxy_makes_the_handshake_and_requests_and_results_are_those_of_each_side():
    both = Between()
    await both.ask(1, "tools/list", cursor="c")
    (hello,) = both.asked("initialize")
    assert hello["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": HELLO["clientInfo"],
    }
    assert len(both.asked("notifications/initialized")) == 1
    assert both.asked("tools/list") == [{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "c"}}]
    await both.say({"id": 1, "result": {"tools": [], "x": 1.50}})
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert both.seen == [({"jsonrpc": "2.0", "id": 1, "result": {"tools": [], "x": 1.50} | more}, 1)]
    await both.ask(2, "server/discover")
    found = both.seen.pop()[0]["result"]
    assert (found["supportedVersions"], found["instructions"]) == (["2026-07-28"], "Be brief.")
    assert found["_meta"] == {f"{KEY}serverInfo": SAID["serverInfo"]}
    await both.ask(3, "vendor/x")
    await both.say({"id": 3, "error": {"code": 1, "message": "no"}})
    assert both.seen.pop()[0] == {"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}}
    assert len(both.asked("initialize")) == 1


async def test_messages_to_a_server_that_has_this_protocol_are_not_touched():
    both = Between(**{"server/discover": {"result": {"supportedVersions": ["2026-07-28"]}}})
    await both.ask("d", "server/discover")
    await both.ask(1, "tools/list")
    assert [each["method"] for each in both.got] == ["server/discover", "tools/list"]
    assert both.got[1]["params"]["_meta"] == META
    await both.say({"id": 1, "result": {"tools": []}})
    assert both.seen[-1][0]["result"] == {"tools": []}
    asked = Between(**{"server/discover": {"result": {}}})
    await asked.ask(1, "tools/list")
    assert [each["method"] for each in asked.got] == ["server/discover", "tools/list"]


async def test_a_client_that_makes_a_handshake_after_all_gets_its_own():
    both = Between()
    await both.ask("d", "server/discover")
    assert both.seen.pop()[0]["error"] == UNKNOWN["error"]
    await both.tell({"id": 0, "method": "initialize", "params": HELLO})
    assert both.asked("initialize")[0]["params"] == HELLO
    question = {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {}}
    await both.say(question)
    assert both.seen[-1][0] == question


@in_virtual_time
async def test_a_server_that_does_not_answer_the_question_gets_a_handshake_after_two_seconds():
    both = Between(**{"server/discover": None})
    await both.ask(1, "tools/list")
    assert asyncio.get_running_loop().time() < 3
    assert len(both.asked("initialize")) == len(both.asked("tools/list")) == 1


@pytest.mark.parametrize("refusal", [{"error": {"code": -1, "message": "no"}}, ServerDownError("it is down")])
async def test_a_server_that_has_neither_gets_the_request_as_it_came(refusal):
    both = Between(initialize=refusal)
    await both.ask(1, "tools/list")
    assert both.got[-1]["params"]["_meta"] == META
    await both.give_up(1, ServerDownError("it is down"))
    assert both.failed[0][0] == 1


async def test_what_the_server_asks_the_client_is_a_result_and_its_answer_comes_with_the_next_attempt():
    both = Between()
    await both.ask(1, "tools/call", {"progressToken": "t1"}, name="a")
    await both.say({"id": "q1", "method": "elicitation/create", "params": {"message": "Who?"}}, 1)
    answer, related = both.seen.pop()
    assert (answer["id"], related) == (1, None)
    result = answer["result"]
    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {"input": {"method": "elicitation/create", "params": {"message": "Who?"}}}
    await both.say({"id": "q2", "method": "roots/list"}, 1)
    assert both.seen == [], "the client is asked one after the other"
    given = {"action": "accept", "content": {"name": "Ada"}}
    state = result["requestState"]
    await both.ask(
        2, "tools/call", {"progressToken": "t2"}, name="a", requestState=state, inputResponses={"input": given}
    )
    assert both.got[-1] == {"jsonrpc": "2.0", "id": "q1", "result": given}
    second = both.seen.pop()[0]
    assert (second["id"], second["result"]["inputRequests"]["input"]["method"]) == (2, "roots/list")
    await both.ask(3, "tools/call", {"progressToken": "t3"}, name="a", requestState=second["result"]["requestState"])
    assert both.got[-1]["error"]["message"] == "The client gave no input."
    await both.say({"method": "notifications/progress", "params": {"progressToken": "t1", "progress": 1}})
    assert both.seen.pop() == (
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "t3", "progress": 1}},
        3,
    )
    await both.say({"id": 1, "result": {"content": []}})
    assert both.seen.pop() == ({"jsonrpc": "2.0", "id": 3, "result": {"content": [], "resultType": "complete"}}, 3)
    assert len(both.asked("tools/call")) == 1


async def test_an_answer_that_comes_while_the_client_is_asked_waits_for_it():
    both = Between()
    await both.ask(1, "tools/call", name="a")
    await both.say({"id": "q1", "method": "roots/list"})
    state = both.seen.pop()[0]["result"]["requestState"]
    await both.say({"id": 1, "result": {"content": [], "isError": True}})
    assert both.seen == []
    await both.ask(2, "tools/call", name="a", requestState=state, inputResponses={"input": {"roots": []}})
    assert both.seen.pop()[0]["result"]["isError"] is True


async def test_other_requests_of_the_server_are_answered_by_the_proxy():
    both = Between()
    await both.say({"id": 1, "method": "ping"})
    await both.ask(1, "tools/list")
    both.seen.clear()
    await both.say({"id": "p", "method": "ping"})
    await both.say({"id": "v", "method": "vendor/x"})
    await both.say({"id": 1, "result": {}})
    await both.say({"id": "q", "method": "roots/list"})
    answers = [each for each in both.got if "method" not in each]
    assert [("result" in each, each["id"]) for each in answers] == [(True, "p"), (False, "v"), (False, "q")]


async def test_changes_go_to_the_subscriptions_that_want_them_until_these_are_cancelled():
    both = Between(**{"resources/subscribe": {"result": {}}})
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]}
    await both.ask("l", "subscriptions/listen", notifications=wanted)
    told, related = both.seen.pop()
    assert (told["method"], related) == ("notifications/subscriptions/acknowledged", "l")
    assert told["params"] == {"_meta": {f"{KEY}subscriptionId": "l"}, "notifications": wanted}
    assert both.asked("resources/subscribe")[0]["params"] == {"uri": "a://b"}
    await both.say({"method": "notifications/prompts/list_changed"})
    assert both.seen == []
    await both.say({"method": "notifications/tools/list_changed"})
    assert both.seen.pop() == (
        {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {f"{KEY}subscriptionId": "l"}},
        },
        "l",
    )
    await both.say({"method": "notifications/resources/updated", "params": {"uri": "a://b"}})
    assert both.seen.pop()[0]["params"]["uri"] == "a://b"
    await both.way.cancel("l", rpc.notification("notifications/cancelled", {"requestId": "l"}))
    await both.say({"method": "notifications/tools/list_changed"})
    assert both.seen == both.cancelled == []


async def test_a_call_is_cancelled_by_the_id_of_its_first_attempt_and_its_level_is_set_once():
    both = Between(**{"logging/setLevel": {"result": {}}})
    level = {f"{KEY}logLevel": "debug"}
    await both.ask(1, "tools/call", level, name="a")
    await both.say({"id": "q", "method": "roots/list"})
    state = both.seen.pop()[0]["result"]["requestState"]
    await both.ask(2, "tools/call", level, name="a", requestState=state, inputResponses={"input": {"roots": []}})
    await both.ask(3, "tools/call", level, name="a")
    assert [each["params"] for each in both.asked("logging/setLevel")] == [{"level": "debug"}]
    await both.way.cancel(2, rpc.notification("notifications/cancelled", {"requestId": 2, "reason": "enough"}))
    assert both.cancelled == [
        (1, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "enough"}})
    ]
    await both.give_up(3, ServerDownError("it is down"))
    assert [number for number, _ in both.failed] == [3]
