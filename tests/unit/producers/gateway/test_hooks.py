"""Claude Code's HTTP hooks."""

from __future__ import annotations

import itertools

import pytest

from switchgear_gateway import hooks
from switchgear_gateway.bodies import Budget
from switchgear_gateway.otlp.submission import SubmitResult
from switchgear_gateway.shared import Shared
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token
from tests.support.gateway_app import GatewayClient

NAME, TOOL = "mcp__weather__get_forecast", "mcp:weather:get_forecast"
REFUSED = "MCP error -32000: Connection closed"
ANSWERED = "connect ECONNREFUSED 127.0.0.1:4000"
ids = itertools.count(1)


class Session:
    """A session of Claude Code, whose hooks go to one gateway, or to one before and one after a call."""

    def __init__(self, client, after=None):
        self.client, self.other = client, after or client

    async def before(self, call="t", name=NAME):
        """Return the reason of the refusal, or None."""
        found = await self.client.hook("PreToolUse", tool_name=name, tool_use_id=call, tool_input={"city": "Oslo"})
        assert found.status_code == 200
        if found.content == b"{}":
            return None
        output = found.json()["hookSpecificOutput"]
        assert (output["hookEventName"], output["permissionDecision"]) == ("PreToolUse", "deny")
        return output["permissionDecisionReason"]

    async def after(self, call="t", name=NAME, error=None, **fields):
        sent = {"tool_name": name, "tool_use_id": call, "tool_input": {}, "duration_ms": 40}
        if error is None:
            fields = {"tool_response": [{"type": "text", "text": "sunny"}]} | fields
            found = await self.other.hook("PostToolUse", **sent, **fields)
        else:
            found = await self.other.hook("PostToolUseFailure", **sent, error=error, **fields)
        assert (found.status_code, found.content) == (200, b"{}")

    async def call(self, error=None, **fields):
        call = f"toolu_{next(ids)}"
        reason = await self.before(call)
        if reason is None:
            await self.after(call, error=error, **fields)
        return reason

    async def outage(self):
        for _ in range(3):
            assert await self.call(REFUSED) is None


@pytest.fixture
def session(client):
    return Session(client)


async def test_a_call_of_a_session_is_one_event(place, session):
    assert await session.call() is None
    (event,) = place.events(TOOL)
    assert (event["status"], event["execution_time_ms"], event["session_id"]) == ("success", 40, "s-1")
    assert (event["service"], event["generation"]) == ("claude-code", 0)


async def test_failures_of_a_session_refuse_the_tool_to_the_whole_fleet_by_the_name_that_claude_code_knows(
    place, session
):
    await session.outage()
    for one in (session, Session(place.client())):
        reason = await one.before()
        assert reason.startswith(f"The tool {NAME} is unavailable (circuit open).")
    assert not (await place.client().decide(TOOL))["allowed"]


@pytest.mark.parametrize(("globs", "found"), [((), "tool"), (("mcp:db:*",), "tool"), (("mcp:weather:*",), "transport")])
async def test_a_failed_answer_is_the_tools_unless_the_user_trusts_the_texts_of_the_tool(place, globs, found):
    session = Session(place.client(outages_in_text=globs))
    await session.call(tool_response={"isError": True, "content": [{"type": "text", "text": ANSWERED}]})
    await session.call(ANSWERED)
    events = place.events(TOOL)
    assert [(event["status"], event["error_class"]) for event in events] == [("error", found)] * 2
    assert all(ANSWERED in event["error_message"] for event in events)


async def test_a_quoted_refusal_counts_nowhere_without_any_option(place, session):
    await session.call("The tool search is unavailable (circuit open). Do not call it again now.")
    assert [event["error_class"] for event in place.events(TOOL)] == ["policy"]


async def test_an_interrupted_call_is_cancelled(place, session):
    await session.call("interrupted", is_interrupt=True)
    assert [event["status"] for event in place.events(TOOL)] == ["cancelled"]


@pytest.mark.slow
async def test_one_call_probes_after_the_wait_and_its_success_closes_the_circuit(place, session):
    await session.outage()
    place.fleet.advance(40)
    assert await session.before("probe") is None
    assert "circuit half open" in await session.before("second")
    await session.after("probe")
    assert place.events(TOOL)[-1]["lease_id"]
    assert await session.before("third") is None


@pytest.mark.slow
async def test_the_end_of_a_call_counts_at_a_gateway_that_was_not_asked_about_it(place, client):
    split = Session(client, after=place.client())
    await split.outage()
    assert "circuit open" in await split.before()
    place.fleet.advance(40)
    assert await split.call() is None
    assert [event.get("generation") for event in place.events(TOOL)] == [None] * 4
    assert place.fleet.state(TOOL) == "closed"


async def test_other_tools_are_guarded_when_the_address_names_them(place, client):
    for query, events in (("", 0), ("?tools=WebFetch,mcp__*", 1)):
        sent = {"tool_name": "WebFetch", "tool_use_id": "t", "tool_response": "x"}
        assert (await client.hook("PostToolUse", query=query, **sent)).status_code == 200
        assert len(place.events("WebFetch")) == events


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
async def test_the_context_names_the_tools_that_are_unavailable(place, session, event):
    assert (await session.client.hook(event)).content == b"{}"
    await session.outage()
    place.fleet.open_circuit("not of an MCP server", for_s=60)
    place.fleet.open_circuit("mcp:github", for_s=60, family=True)
    output = (await session.client.hook(event)).json()["hookSpecificOutput"]
    assert output["hookEventName"] == event
    said = output["additionalContext"]
    assert said.startswith("[tool status] These tools are unavailable: all tools of mcp:github, ")
    assert NAME in said
    assert "not of" not in said
    again = await session.client.hook(event)
    assert (again.content == b"{}") == (event == "UserPromptSubmit"), "a session that begins again knows nothing"


async def test_events_that_say_nothing_about_a_tool_get_no_answer(client):
    for event in ("SessionEnd", "Stop", "", "PreToolUse"):
        found = await client.hook(event)
        assert (found.status_code, found.content) == (200, b"{}")


async def test_what_is_no_event_is_a_problem_that_does_not_block(client):
    for body, status in ((b"", 400), (b"[1]", 422), (b"{", 400)):
        assert (await client.raw("/v1/hooks/claude-code", body)).status_code == status


async def test_a_token_for_other_tools_gets_an_error_that_does_not_block(place):
    token, text = new_token("github", [Role.EMIT], tools=["mcp:github:*"])
    client = GatewayClient(place.gateway(tokens=[token]), token=text)
    for event in ("PreToolUse", "PostToolUse"):
        found = await client.hook(event, tool_name=NAME, tool_use_id="t")
        assert found.status_code == 403
    place.fleet.open_circuit(TOOL, for_s=60)
    assert (await client.hook("UserPromptSubmit")).content == b"{}"
    assert place.events(TOOL) == []


async def test_a_tenants_session_sends_its_tenant(place):
    token, text = new_token("acme", [Role.EMIT], tenant="acme")
    await Session(GatewayClient(place.gateway(tokens=[token]), token=text)).call()
    assert [event["tenant"] for event in place.events(TOOL)] == ["acme"]


async def test_a_tenants_session_hears_of_the_tools_that_it_has_named_and_of_no_others(place):
    made = {name: new_token(name, [Role.EMIT], tenant=name) for name in ("acme", "globex")}
    app = place.gateway(tokens=[token for token, _ in made.values()])
    acme, globex = (Session(GatewayClient(app, token=text)) for _, text in made.values())
    for tool in (TOOL, "mcp:globex:secret"):
        place.fleet.open_circuit(tool, for_s=600, reason="globex pays late")
    place.fleet.open_circuit("mcp:globex", for_s=600, family=True)
    assert (await acme.client.hook("SessionStart")).content == b"{}", "it has named none"
    reason = await acme.before()
    assert "globex" not in reason
    await globex.before(name="mcp__globex__secret")
    for session, expected in ((acme, NAME), (globex, "mcp:globex")):
        output = (await session.client.hook("SessionStart")).json()["hookSpecificOutput"]
        assert expected in output["additionalContext"]
        assert (NAME in output["additionalContext"]) is (session is acme)
        assert ("globex" in output["additionalContext"]) is (session is globex)


async def test_the_end_of_a_call_names_its_reporter_by_the_token(place):
    token, text = new_token("acme", [Role.EMIT])
    await Session(GatewayClient(place.gateway(tokens=[token]), token=text)).call()
    assert [event["reporter"] for event in place.events(TOOL)] == [f"token {token.id}"]


async def test_an_end_that_kafka_does_not_take_is_an_error_that_does_not_block(place, client):
    place.submit.results = [SubmitResult(unknown=[0])]
    found = await client.hook("PostToolUse", tool_name=NAME, tool_use_id="t", tool_response="x")
    assert found.status_code == 503


async def test_a_call_whose_ids_are_very_long_is_known_at_its_end_and_only_a_hash_of_them_is_kept(
    monkeypatch, place, client
):
    keys = set()
    make = hooks._key
    monkeypatch.setattr(hooks, "_key", lambda *of: keys.add(key := make(*of)) or key)
    long = "x" * 50_000
    for event in ("PreToolUse", "PostToolUse"):
        sent = {"tool_name": NAME, "tool_use_id": long, "tool_response": "x"}
        assert (await client.hook(event, **sent)).status_code == 200
    assert [event.get("generation") for event in place.events(TOOL)] == [0]
    assert [len(key) for key in keys] == [16]


async def test_all_requests_together_hold_a_bounded_number_of_bytes(place):
    client = place.client(shared=Shared(budget=Budget(2_000)))
    for _ in range(3):
        large = await client.hook("PreToolUse", tool_name=NAME, tool_use_id="t", tool_input="x" * 3_000)
        assert (large.status_code, large.headers["retry-after"]) == (429, "1")
        assert (await client.post("/v1/decide", tool=TOOL, user_id="x" * 3_000)).status_code == 429
        assert await Session(client).call() is None


@pytest.mark.parametrize("duration", [1e300, 10**400, -1], ids=lambda value: str(value)[:10])
async def test_an_impossible_duration_is_ignored(place, client, duration):
    sent = {"tool_name": NAME, "tool_use_id": "t", "tool_response": "x", "duration_ms": duration}
    assert (await client.hook("PostToolUse", **sent)).status_code == 200
    assert [event["execution_time_ms"] for event in place.events(TOOL)] == [0]


@pytest.fixture
def two_permits(monkeypatch):
    """Use it before ``place``, whose gateway takes the bound when it starts."""
    monkeypatch.setattr(hooks, "MOST_PERMITS", 2)


async def test_the_calls_whose_end_is_awaited_are_bounded(two_permits, place, session):
    for call in ("a", "b", "c"):
        await session.before(call)
    for call in ("a", "b", "c"):
        await session.after(call)
    assert [event.get("generation") for event in place.events(TOOL)] == [None, 0, 0]


async def test_an_event_with_too_many_values_is_refused_and_a_long_text_is_not(place, client):
    sent = {"tool_name": NAME, "tool_use_id": "t"}
    dense = await client.hook("PostToolUse", **sent, tool_response=[[]] * 200_000)
    assert (dense.status_code, "too many values" in dense.json()["detail"]) == (413, True)
    assert place.events(TOOL) == []
    assert (await client.hook("PostToolUse", **sent, tool_response="[], " * 150_000)).status_code == 200
    assert len(place.events(TOOL)) == 1
