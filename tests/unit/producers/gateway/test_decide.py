"""The guard as two requests."""

from __future__ import annotations

import pytest

from switchgear.classify.tool_failure import META_KEY, read_tool_failure
from switchgear.testing import InMemoryFleet
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token
from tests.support.gateway_app import GatewayClient
from tests.unit.producers.gateway.conftest import POLICY, Place

TOOL = "mcp:weather:get_forecast"


async def outage(client, tool=TOOL, times=3, **fields):
    for _ in range(times):
        answer = await client.call(tool, "error", error_message="connection refused", **fields)
        assert answer["allowed"]


async def test_a_permitted_call_and_its_outcome_are_one_event(place, client):
    answer = await client.decide(TOOL, user_id="u", session_id="s", request_id="r", arguments_hash="abc")
    assert answer == {
        "allowed": True,
        "permit": answer["permit"],
        "tool": TOOL,
        "probe": False,
        "generation": 0,
        "expires_in_s": 3600.0,
    }
    place.fleet.advance(2)
    assert await client.outcome(answer["permit"], output_tokens=7, cost_usd=0.5, metadata={"a": 1}) == 204
    (event,) = place.events(TOOL)
    assert event["status"] == "success"
    assert event["execution_time_ms"] == pytest.approx(2000)
    assert (event["user_id"], event["session_id"], event["request_id"]) == ("u", "s", "r")
    assert (event["parameters_hash"], event["generation"], event["family_generation"]) == ("abc", 0, 0)
    assert (event["output_tokens"], event["cost_usd"], event["metadata"]) == (7, 0.5, {"a": 1})
    assert (event["emitter_id"], event["service"]) == ("local@127.0.0.1", "local")


async def test_errors_at_one_gateway_refuse_the_tool_at_another(place, client):
    await outage(client)
    answer = await place.client().decide(TOOL, request_id="r-1")
    text = answer.pop("text")
    assert text.startswith(
        f"The tool {TOOL} is unavailable (circuit open). The rule consecutive_failures opened it (3 reached 3 over 3 calls)."
        " Its last error was an error of unknown kind."
    )
    failure = answer.pop("toolFailure")
    assert failure["correlationId"] == "r-1"
    assert failure["agentGuidance"] == text
    assert read_tool_failure({META_KEY: failure}).error_class == "policy"
    assert answer == {
        "allowed": False,
        "state": "open",
        "source": "fleet",
        "reason": answer["reason"],
        "retry_after_s": pytest.approx(30, abs=5),
        "fallback": None,
        "last_error": "error: connection refused",
        "last_error_class": "unknown",
        "family": None,
        "generation": 1,
    }


async def test_an_outcome_may_come_to_any_gateway_with_the_same_key(place, client):
    answer = await client.decide(TOOL)
    assert await place.client().outcome(answer["permit"]) == 204
    assert len(place.events(TOOL)) == 1


async def test_gateways_without_a_shared_key_do_not_know_each_others_permits(place):
    first, second = place.client(key=None), place.client(key=None)
    answer = await first.decide(TOOL)
    assert await second.outcome(answer["permit"]) == 404
    assert await first.outcome(answer["permit"]) == 204


@pytest.mark.slow
async def test_failures_of_one_client_open_no_circuit_of_the_gateway_itself(place):
    """The worker is away, so only circuits of the gateway could refuse."""
    client = place.client()
    place.fleet.stop_worker()
    await outage(client, times=20)
    assert (await client.decide(TOOL))["allowed"]


async def test_recovery_takes_exactly_the_probes_of_the_policy_across_gateways(place, client):
    await outage(client)
    other = place.client()
    place.fleet.advance(40)
    probe = await client.decide(TOOL)
    assert (probe["allowed"], probe["probe"]) == (True, True)
    assert probe["expires_in_s"] == POLICY.max_wait_duration_in_half_open_state_s
    for each in (client, other):
        refused = await each.decide(TOOL)
        assert (refused["allowed"], refused["state"]) == (False, "half_open")
    assert await other.outcome(probe["permit"]) == 204  # also at another gateway than the one that gave it
    for each in (client, other):
        answer = await each.decide(TOOL)
        assert (answer["allowed"], answer["probe"]) == (True, False)


async def test_a_probe_that_is_asked_to_wait_lengthens_the_wait_of_the_fleet(place, client):
    await outage(client)
    place.fleet.advance(40)
    probe = await client.decide(TOOL)
    assert probe["probe"]
    limited = {"error_class": "rate_limited", "retry_after_s": 120}
    assert await client.outcome(probe["permit"], "error", **limited) == 204
    assert place.events(TOOL)[-1]["retry_after_s"] == 120
    assert (await place.client().decide(TOOL))["retry_after_s"] == pytest.approx(120, abs=5)


async def test_a_probe_whose_outcome_never_comes_is_free_after_its_lease(place, client):
    await outage(client)
    place.fleet.advance(40)
    assert (await client.decide(TOOL))["probe"]
    place.fleet.advance(19)
    assert not (await client.decide(TOOL))["allowed"]
    for _ in range(3):  # the lease's end opens the circuit again, and the second wait is longer
        place.fleet.advance(61)
        answer = await client.decide(TOOL)
        if answer["allowed"]:
            break
    assert answer["probe"]


async def test_an_ignored_probe_is_free_for_the_next_call(place, client):
    await outage(client)
    place.fleet.advance(40)
    probe = await client.decide(TOOL)
    assert await client.outcome(probe["permit"], "ignored") == 204
    assert (await client.decide(TOOL))["probe"]


@pytest.mark.slow
async def test_tools_of_a_server_that_does_not_answer_are_refused_and_its_probe_may_be_any_tool(place, client):
    for number in range(20):
        await client.call(f"mcp:weather:{number}", "error", error_class="transport")
    refused = await client.decide("mcp:weather:never_called")
    assert (refused["allowed"], refused["family"]) == (False, "mcp:weather")
    place.fleet.advance(120)
    probe = await client.decide("mcp:weather:never_called")
    assert (probe["probe"], probe["tool"]) == (True, "mcp:weather:never_called")
    assert probe["expires_in_s"] <= 60
    assert await client.outcome(probe["permit"]) == 204
    assert (await client.decide("mcp:weather:another"))["allowed"]


async def test_an_open_tool_gives_a_permit_for_the_fallback_of_its_policy_that_the_client_can_call(place, client):
    place.gears[0].map_fallbacks({TOOL: ["backup:one", "backup:two"]})
    await outage(client)
    answer = await client.decide(TOOL, fallbacks=["backup:two", "another"])
    assert (answer["allowed"], answer["tool"]) == (True, "backup:two")
    assert await client.outcome(answer["permit"]) == 204
    (event,) = place.events("backup:two")
    assert event["served_by"] == "fallback"
    assert (await client.decide(TOOL))["fallback"] == "backup:one"


# -- rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tokens():
    return {
        "weather": new_token("weather", [Role.EMIT], tools=["mcp:weather:*"]),
        "acme": new_token("acme", [Role.EMIT], tenant="acme"),
        "other": new_token("other", [Role.EMIT], tenant="other"),
        "reader": new_token("reader", [Role.READ]),
    }


@pytest.fixture
def of(place, tokens):
    app = place.gateway(tokens=[token for token, _ in tokens.values()])
    return lambda name: GatewayClient(app, token=tokens[name][1], address="10.0.0.9")


async def test_a_token_without_the_role_emit_gets_no_permit_and_reports_no_outcome(of):
    permit = (await of("acme").decide(TOOL))["permit"]
    reader = of("reader")
    assert (await reader.post("/v1/decide", tool=TOOL)).status_code == 403
    assert await reader.outcome(permit) == 403


async def test_a_token_for_some_tools_gets_permits_for_these_only(place, of):
    client = of("weather")
    refused = await client.post("/v1/decide", tool="mcp:github:search")
    assert refused.status_code == 403
    assert refused.json()["detail"] == "This token is for the tools mcp:weather:* only."
    assert (await client.decide(TOOL))["allowed"]
    place.gears[0].map_fallbacks({TOOL: ["mcp:github:search"]})
    await outage(client)
    answer = await client.decide(TOOL, fallbacks=["mcp:github:search"])
    assert (answer["allowed"], answer["fallback"]) == (False, None)


async def test_a_tenants_token_sends_its_tenant_and_no_other(place, of):
    acme = of("acme")
    assert (await acme.post("/v1/decide", tool=TOOL, tenant="other")).status_code == 403
    permit = (await acme.decide(TOOL, tenant="acme"))["permit"]
    assert await of("other").outcome(permit) == 404
    assert place.events(TOOL) == []
    assert await acme.outcome(permit) == 204
    assert [event["tenant"] for event in place.events(TOOL)] == ["acme"]


async def test_a_tenants_token_does_not_see_the_error_of_another_tenant(of):
    await outage(of("other"))
    answer = await of("acme").decide(TOOL)
    assert answer["allowed"] is False
    assert answer["last_error"] is None
    assert "connection refused" not in str(answer)


async def test_a_tenant_gets_the_rule_and_neither_an_operators_reason_nor_anothers_fallback(place, of):
    place.gears[0].map_fallbacks({TOOL: ["globex:search"]})
    place.fleet.open_circuit(TOOL, for_s=60, reason="globex pays late")
    assert "globex pays late" in (await of("weather").decide(TOOL))["reason"]
    answer = await of("acme").decide(TOOL)
    assert (answer["state"], answer["reason"], answer["fallback"]) == ("open", "command", None)
    assert answer["retry_after_s"] == pytest.approx(60, abs=5)
    assert "globex" not in str(answer)


async def test_a_tenant_is_told_of_a_fallback_that_it_names(place, of):
    place.gears[0].map_fallbacks({TOOL: ["backup"]})
    place.fleet.open_circuit(TOOL, for_s=60)
    await of("acme").decide("backup")
    answer = await of("acme").decide(TOOL)
    assert (answer["allowed"], answer["fallback"]) == (False, "backup")


async def test_with_the_scope_tenant_a_tenants_failures_refuse_its_own_calls_alone_until_its_probe_succeeds(tokens):
    place = Place(InMemoryFleet(POLICY.model_copy(update={"scope": "tenant"})))
    app = place.gateway(tokens=[token for token, _ in tokens.values()])
    acme, other = (GatewayClient(app, token=tokens[name][1]) for name in ("acme", "other"))
    await outage(acme)
    refused = await acme.decide(TOOL)
    assert (refused["allowed"], refused["state"], refused["reason"]) == (False, "open", "consecutive_failures")
    assert (await other.decide(TOOL))["allowed"]
    assert place.fleet.circuits()[f"{TOOL}|tenant=acme"].state == "open"
    place.fleet.advance(40)
    probe = await acme.decide(TOOL)
    assert (probe["allowed"], probe["probe"]) == (True, True)
    assert (await other.decide(TOOL))["probe"] is False
    assert await acme.outcome(probe["permit"]) == 204
    assert (await acme.decide(TOOL))["allowed"]
    place.gears[0].close()


async def test_one_token_is_one_reporter_whatever_processes_it_names(place, of, tokens):
    for number in range(3):
        answer = await of("acme").decide(TOOL, emitter_id=f"forged-{number}")
        assert await of("acme").outcome(answer["permit"], "error") == 204
    found = [(event["emitter_id"], event["reporter"]) for event in place.events(TOOL)]
    assert found == [(f"forged-{number}", f"token {tokens['acme'][0].id}") for number in range(3)]


async def test_a_collectors_processes_are_reporters(place):
    token, text = new_token("collector", [Role.EMIT], collector=True)
    client = GatewayClient(place.gateway(tokens=[token]), token=text)
    answer = await client.decide(TOOL, emitter_id="worker-7")
    assert await client.outcome(answer["permit"]) == 204
    (event,) = place.events(TOOL)
    assert (event["emitter_id"], event["reporter"]) == ("worker-7", "")


async def test_the_calling_process_is_the_emitter_and_not_the_gateway(place, of):
    client = of("weather")
    await client.call(TOOL)
    answer = await client.decide(TOOL, emitter_id="worker-7", service="planner")
    assert await client.outcome(answer["permit"]) == 204
    assert [(event["emitter_id"], event["service"]) for event in place.events(TOOL)] == [
        ("weather@10.0.0.9", "weather"),
        ("worker-7", "planner"),
    ]


# -- requests that are wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status", "detail"),
    [
        ({}, 422, "tool: this field is missing."),
        ({"tool": 7}, 422, "tool: expected `str`, got `int`."),
        ({"tool": ""}, 422, "tool: expected `str` of length >= 1."),
        ({"tool": "x" * 257}, 422, "tool: expected `str` of length <= 256."),
        ({"tool": "t", "tols": []}, 422, "tols: there is no such field."),
        ({"tool": "t", "fallbacks": ["a", 1]}, 422, "fallbacks[1]: expected `str`, got `int`."),
        ({"tool": "t", "session_id": "x" * 257}, 422, "session_id: expected `str` of length <= 256."),
    ],
)
async def test_a_wrong_field_is_named(client, fields, status, detail):
    response = await client.post("/v1/decide", **fields)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == detail


async def test_metadata_that_is_nested_too_deep_is_a_wrong_field(client):
    permit, metadata = (await client.decide(TOOL))["permit"], {}
    for levels, status in ((50, 204), (260, 422)):
        for _ in range(levels):
            metadata = {"a": [metadata]}
        answer = await client.post("/v1/outcome", permit=permit, status="success", metadata=metadata)
        if status == 422:
            assert answer.json()["detail"].startswith("metadata: ")
        assert answer.status_code == status


async def test_an_unknown_field_is_answered_with_the_fields_that_exist(client):
    problem = (await client.post("/v1/decide", tool_name="t")).json()
    assert problem["hint"].startswith("Its fields are tool, user_id, session_id,")
    assert problem["hint"].endswith("emitter_id, service, tools.")


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 400), (b"{", 400), (b"\xff", 400), (b"[]", 422), (b"{}" * 40_000, 413)]
)
async def test_a_body_that_is_no_request_is_a_problem(client, body, status):
    for path in ("/v1/decide", "/v1/outcome"):
        assert (await client.raw(path, body)).status_code == status


async def test_a_mark_of_utf_8_before_the_request_is_no_error(client):
    assert (await client.raw("/v1/decide", b'\xef\xbb\xbf{"tool": "t"}')).json()["allowed"] is True


async def test_a_page_in_a_browser_can_not_send_a_simple_request(client):
    response = await client.raw("/v1/decide", b'{"tool": "t"}', "text/plain")
    assert response.status_code == 415


FETCH = "mcp:fetch:fetch"


@pytest.fixture
def split():
    """A fleet whose policy keeps the targets of a tool apart."""
    made = Place(InMemoryFleet({FETCH: POLICY.model_copy(update={"target": "url.host"})}))
    yield made
    for gear in made.gears:
        gear.close()


async def test_a_target_is_refused_alone_and_its_outcomes_count_for_it(split):
    client = split.client()
    await client.call(FETCH)  # whose event lets the fleet announce the target
    for _ in range(3):
        answer = await client.decide(FETCH, target="dead.org")
        assert await client.outcome(answer["permit"], "error", error_class="server") == 204
        await client.call(FETCH)
    assert split.fleet.circuits()[f"{FETCH}@dead.org"].state == "open"
    refused = await client.decide(FETCH, target="dead.org")
    assert refused["text"].startswith(f"The tool {FETCH} is unavailable for dead.org (circuit open).")
    assert (await client.decide(FETCH, target="good.org"))["allowed"]
    assert (await client.decide(FETCH))["allowed"]


async def test_a_target_counts_for_nothing_if_the_policy_has_none(place, client):
    answer = await client.decide(TOOL, target="dead.org")
    assert await client.outcome(answer["permit"]) == 204
    assert not place.events(TOOL)[0].get("target")


async def test_a_hook_names_the_target_by_the_calls_arguments(split):
    client = split.client()
    await client.call(FETCH)
    for number in range(4):
        sent = {
            "tool_name": "mcp__fetch__fetch",
            "tool_use_id": str(number),
            "tool_input": {"url": "https://dead.org/"},
        }
        answer = await client.hook("PreToolUse", **sent)
        await client.hook("PostToolUseFailure", **sent, error="503 Service Unavailable")
    assert "unavailable for dead.org" in answer.json()["hookSpecificOutput"]["permissionDecisionReason"]
    assert split.events(FETCH)[1]["error_type"] == "TargetError"
    assert split.fleet.circuits()[FETCH].state == "closed"


async def test_the_answer_says_once_in_each_session_which_tools_are_down_and_once_that_they_may_be_called(
    place, client
):
    asked = {"tools": [TOOL, "mcp:other:search"]}
    assert "message" not in await client.decide("backup", session_id="s", **asked)
    place.fleet.open_circuit(TOOL)
    place.fleet.open_circuit("not of this agent")
    said = f"[tool status] These tools are unavailable: {TOOL}. The answer to a call of one says when to try it again."
    place.fleet.advance(61)
    assert (await client.decide(TOOL, session_id="s", **asked))["message"] == said
    for fields in ({"session_id": "s", **asked}, {"session_id": "t"}, asked):
        assert "message" not in await client.decide(TOOL, **fields)
    assert (await client.decide("backup", session_id="t", **asked))["message"] == said
    place.fleet.close_circuit(TOOL)
    place.fleet.advance(61)
    again = f"[tool status] These tools may be called again: {TOOL}."
    assert (await client.decide(TOOL, session_id="s", **asked))["message"] == again
    assert "message" not in await client.decide(TOOL, session_id="s", **asked)


async def test_a_token_for_some_tools_is_told_about_these_only(place, of):
    place.fleet.open_circuit("mcp:github:search")
    answer = await of("weather").decide(TOOL, session_id="s", tools=[TOOL, "mcp:github:search"])
    assert (answer["allowed"], "message" in answer) == (True, False)
