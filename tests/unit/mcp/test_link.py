"""Everything passes between a client and its server as the bytes that came."""

from __future__ import annotations

import asyncio
import json

import pytest

from switchgear import BreakerPolicy
from switchgear.classify.tool_failure import META_KEY
from tests.support.mcp_worlds import ANSWERS, HELLO, TOOLS, World
from tests.support.virtual_time import in_virtual_time

ODD = b'{"jsonrpc":"2.0", "id":7,"method":"vendor/do", "params":{"n":1E5,"half":"\\ud83d","big":12345678901234567890123},"extra":[]}'


@pytest.fixture
def world():
    return World()


@in_virtual_time
async def test_requests_and_notifications_that_nobody_knows_pass_byte_for_byte_in_both_directions(world):
    await world.hello()
    await world.tell(ODD)
    note = b'{"jsonrpc":"2.0","method":"notifications/vendor/x","params":{"f":1.0}}'
    await world.tell(note)
    assert world.server.got[-2:] == [ODD, note]
    answer = b'{"result" : 5,  "id":7, "jsonrpc":"2.0", "more":1e400}'
    question = b'{"jsonrpc":"2.0","id":7,"method":"vendor/ask","params":null}'
    for each in (answer, question, note):
        await world.server.say(each)
    assert world.seen == [answer, question, note]
    reply = b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no","vendor":true}}'
    await world.tell(reply)
    assert world.server.got[-1] == reply


@in_virtual_time
async def test_the_handshake_passes_as_it_is_but_for_the_list_of_tools_that_may_change(world):
    answer = await world.hello()
    assert world.server.asked("initialize") == [
        {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO}
    ]
    assert world.server.asked("notifications/initialized")
    expected = json.loads(json.dumps(ANSWERS["initialize"]["result"]))
    expected["capabilities"]["tools"]["listChanged"] = True
    assert answer["result"] == expected


@in_virtual_time
async def test_an_error_in_the_handshake_passes(world):
    world.answers["initialize"] = {"error": {"code": -32600, "message": "no such version", "data": {"a": 1}}}
    assert (await world.hello())["error"] == world.answers["initialize"]["error"]


@in_virtual_time
async def test_a_list_of_tools_that_are_all_available_is_not_changed_by_a_byte(world):
    await world.hello()
    page = b'{"jsonrpc":"2.0","id":1,"result":{"_meta":{"v":1.0},"tools":[ {"name":"echo","x":1E2},{"bad":1} ],"nextCursor":"c"}}'
    del world.answers["tools/list"]
    await world.tell({"id": 1, "method": "tools/list"})
    await world.server.say(page)
    assert world.seen == [page]


@pytest.mark.parametrize(
    ("options", "listed"), [({}, 2), ({"tool_list": "new_sessions"}, 1), ({"tool_list": "hide", "hide_after_s": 0}, 1)]
)
@in_virtual_time
async def test_an_open_circuit_refuses_calls_and_the_list_follows_the_setting_and_its_rest_stays(options, listed):
    world = World(BreakerPolicy(consecutive_failures=2, wait_duration_in_open_state_s=3600), gear_options=options)
    await world.hello()
    world.answers["tools/call"] = {"error": {"code": -32603, "message": "broken"}}
    for number in range(2):
        assert (await world.call(number))["error"]["message"] == "broken"
    refused = (await world.call(3))["result"]
    assert refused["isError"] is True
    assert refused["_meta"][META_KEY]["code"] == "circuit_open"
    assert len(world.server.asked("tools/call")) == 2
    world.answers["tools/list"] = {"result": {"tools": TOOLS, "vendor": 1, "nextCursor": ""}}
    assert (await world.ask(4, "tools/list"))["result"] == {"tools": TOOLS[:listed], "vendor": 1, "nextCursor": ""}


@pytest.mark.parametrize(
    ("result", "error_class"),
    [
        ({"content": [{"type": "hologram", "x": 1}]}, None),
        ({"content": [{"type": "text", "text": "no such city"}], "isError": True}, "tool"),
        ({"content": [], "isError": True, "_meta": {"status": 503}}, "server"),
        ({"task": {"taskId": "t"}}, "policy"),
        ({"resultType": "input_required", "inputRequests": {}}, "policy"),
    ],
)
@in_virtual_time
async def test_a_result_of_any_form_passes_and_is_counted_for_what_it_says(world, result, error_class):
    await world.hello()
    world.answers["tools/call"] = {"result": result}
    assert (await world.call(1))["result"] == result
    assert world.classes == [error_class]


@pytest.mark.parametrize(
    ("reason", "error_class"),
    [
        ("the user changed their mind", "cancelled"),
        (None, "cancelled"),
        ("McpError: MCP error -32001: Request timed out", "timeout"),
        ("timed out after 60s", "timeout"),
    ],
)
@in_virtual_time
async def test_a_cancelled_call_is_cancelled_at_the_server_with_its_reason_and_gets_no_answer(
    world, reason, error_class
):
    await world.hello()
    await world.tell({"id": 1, "method": "tools/call", "params": {"name": "echo"}})
    params = {"requestId": 1} | ({} if reason is None else {"reason": reason, "vendor": 1})
    await world.tell({"method": "notifications/cancelled", "params": params})
    assert world.server.asked("notifications/cancelled")[-1]["params"] == params
    await world.server.say({"id": 1, "result": {"content": []}})
    assert world.seen == []
    assert world.classes == [error_class]


@in_virtual_time
async def test_a_request_of_a_server_that_has_gone_is_cancelled_and_its_late_answer_reaches_nobody(world):
    await world.hello()
    await world.server.say({"id": 0, "method": "elicitation/create", "params": {}})
    first = world.server
    first.end()
    await asyncio.sleep(1)
    assert json.loads(world.seen[-1])["params"]["requestId"] == 0
    world.now += 1
    await world.ask(2, "tools/list")
    await world.server.say({"id": 0, "method": "elicitation/create", "params": {}})
    asked = json.loads(world.seen[-1])
    assert asked["id"] != 0, "the client has not answered the first one yet"
    await world.tell({"id": 0, "result": {"action": "decline"}})
    await world.tell({"id": asked["id"], "result": {"action": "accept"}})
    answers = [found for each in world.server.got if "result" in (found := json.loads(each))]
    assert answers == [{"jsonrpc": "2.0", "id": 0, "result": {"action": "accept"}}]


@in_virtual_time
async def test_a_restarted_server_gets_what_the_client_has_set_and_the_client_lists_again(world):
    world.answers |= {"logging/setLevel": {"result": {}}, "resources/subscribe": {"result": {}}}
    await world.hello()
    await world.ask(1, "logging/setLevel", level="debug", vendor=1)
    await world.ask(2, "resources/subscribe", uri="a://b")
    world.server.end()
    await asyncio.sleep(1)
    world.now += 1
    await world.ask(3, "tools/list")
    assert len(world.connections) == 2
    assert world.server.asked("initialize")[0]["params"] == HELLO
    assert world.server.asked("logging/setLevel")[0]["params"] == {"level": "debug", "vendor": 1}
    assert world.server.asked("resources/subscribe")[0]["params"] == {"uri": "a://b"}
    assert world.server.asked("notifications/initialized")
    kinds = [json.loads(each)["method"] for each in world.seen]
    assert kinds == [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]


@in_virtual_time
async def test_a_server_that_is_silent_holds_the_handshake_three_seconds_and_is_announced_when_it_comes(world):
    world.answers = {}
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await world.hello()
    assert loop.time() - began < 4
    assert "has not answered yet" in answer["result"]["instructions"]
    assert (await world.ask(1, "tools/list"))["result"] == {"tools": []}
    assert loop.time() - began < 9
    await asyncio.sleep(3600)
    assert len(world.connections) == 1, "it may wait for a login"
    await world.server.say({"id": "hello"} | ANSWERS["initialize"])
    await asyncio.sleep(1)
    assert world.server.asked("notifications/initialized")
    assert json.loads(world.seen[0])["method"] == "notifications/tools/list_changed"
    world.answers = dict(ANSWERS)
    assert (await world.ask(2, "tools/list"))["result"] == {"tools": TOOLS}


@in_virtual_time
async def test_the_list_of_a_server_that_needs_five_seconds_to_start_is_complete(world):
    world.answers = {}
    await world.hello()
    await world.tell({"id": 1, "method": "tools/list"})
    await asyncio.sleep(2)
    world.answers = dict(ANSWERS)
    await world.server.say({"id": "hello"} | ANSWERS["initialize"])
    assert (await world.answer(1))["result"] == {"tools": TOOLS}


@in_virtual_time
async def test_a_server_that_never_worked_says_so_in_its_instructions_and_by_an_error(world):
    world.up = False
    answer = await world.hello()
    assert "can't be reached" in answer["result"]["instructions"]
    found = await world.ask(1, "tools/list")
    assert "can't be reached" in found["error"]["message"]


@in_virtual_time
async def test_a_server_that_worked_shows_its_last_lists_while_it_is_down(world):
    await world.hello()
    world.answers["prompts/list"] = {"result": {"prompts": [{"name": "p"}], "x": 1}}
    for method in ("tools/list", "prompts/list"):
        before = await world.ask(method, method)
        world.up = False
        world.server.end()
        await asyncio.sleep(1)
        assert (await world.ask(method, method)) == before
        world.up = True
        world.now += 60
        await world.ask("again", "tools/list")
    world.up = False
    world.server.end()
    await asyncio.sleep(1)
    assert (await world.ask(9, "resources/list"))["result"] == {"resources": []}
    assert (await world.ask(10, "ping"))["result"] == {}


@in_virtual_time
async def test_clients_of_one_server_process_with_the_same_ids_and_tokens_get_their_own_answers(world):
    meta = {"progressToken": 0}
    for number in range(2):
        await world.tell({"id": 5, "method": f"vendor/{number}", "params": {"_meta": meta | {"n": number}}})
    first, second = (json.loads(each) for each in world.server.got[-2:])
    assert (first["id"], first["params"]["_meta"]) == (5, {"progressToken": 0, "n": 0})
    assert second["id"] != 5
    token = second["params"]["_meta"]["progressToken"]
    assert token != 0
    await world.server.say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    await world.server.say({"id": second["id"], "result": {"n": 1}})
    progress, answer = (json.loads(each) for each in world.seen)
    assert progress["params"] == {"progressToken": 0, "progress": 1}
    assert (answer["id"], answer["result"]) == (5, {"n": 1})


@in_virtual_time
async def test_changes_of_the_list_go_to_the_subscriptions_of_a_client_without_a_handshake(world):
    filters = {"toolsListChanged": True, "promptsListChanged": True}
    await world.tell({"id": "listen-1", "method": "subscriptions/listen", "params": {"notifications": filters}})
    key = "io.modelcontextprotocol/subscriptionId"
    told = {"_meta": {key: "listen-1"}, "notifications": {"promptsListChanged": True}}
    await world.server.say({"method": "notifications/subscriptions/acknowledged", "params": told})
    assert json.loads(world.seen[-1])["params"]["notifications"] == filters
    await world.link.tools_changed()
    expected = {"method": "notifications/tools/list_changed", "params": {"_meta": {key: "listen-1"}}}
    assert json.loads(world.seen[-1]) == {"jsonrpc": "2.0"} | expected
    await world.server.say({"id": "listen-1", "result": {}})
    before = len(world.seen)
    await world.link.tools_changed()
    assert len(world.seen) == before


@in_virtual_time
async def test_with_a_limit_a_silent_server_is_a_timeout_and_progress_extends_it():
    world = World(limit_s=60.0)
    await world.hello()
    params = {"name": "echo", "_meta": {"progressToken": "t"}}
    await world.tell({"id": 1, "method": "tools/call", "params": params})
    for _ in range(3):
        await asyncio.sleep(50)
        await world.server.say({"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1}})
    assert not [each for each in world.seen if b'"result"' in each]
    await asyncio.sleep(61)
    (found,) = [json.loads(each) for each in world.seen if b'"result"' in each]
    assert found["result"]["content"][0]["text"] == "The server small did not answer within 60 s."
    assert world.classes == ["timeout"]
    assert world.server.asked("notifications/cancelled")[0]["params"]["requestId"] == 1


@in_virtual_time
async def test_without_a_limit_a_call_may_take_as_long_as_the_client_waits(world):
    await world.hello()
    await world.tell({"id": 1, "method": "tools/call", "params": {"name": "echo"}})
    await asyncio.sleep(7200)
    await world.server.say({"id": 1, "result": {"content": []}})
    assert [json.loads(each)["id"] for each in world.seen] == [1]
    assert world.classes == [None]
