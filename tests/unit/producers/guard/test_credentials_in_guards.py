"""Tools that reject a credential: guards of every kind, permits, sessions, the fleet, and what is shown and sent."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from switchgear import (
    BreakerPolicy,
    CachePolicy,
    CircuitOpenError,
    Classification,
    CredentialRefusedError,
    FunctionHooks,
    Rejection,
    Switchgear,
    SwitchgearError,
)
from switchgear.arguments import OptionError
from switchgear.integrations.tool_calls import ToolCalls
from switchgear.policies import PolicySet
from switchgear.testing import InMemoryFleet
from switchgear_schemas.policy import LOCAL_DEFAULT
from tests.support.table import table

TOKEN = "Bearer eyJhbGciOi-very-secret"


class UnauthorizedError(Exception):
    status_code = 401


class Tool:
    """Accepts some tokens, and counts the calls that are made."""

    def __init__(self, *accepted):
        self.accepted = set(accepted)
        self.made = 0

    def __call__(self, token=""):
        self.made += 1
        if token not in self.accepted:
            raise UnauthorizedError("the token has expired")
        return "sunny"


def ends(function, *calls):
    """Return how calls ended: the result, ``refused``, or the name of the exception."""
    found = []
    for call in calls:
        try:
            found.append(function(call))
        except CredentialRefusedError:
            found.append("refused")
        except (UnauthorizedError, CircuitOpenError) as error:
            found.append(type(error).__name__)
    return found


REJECTED = ["UnauthorizedError"]


@pytest.fixture
def fleet():
    return InMemoryFleet()


@pytest.fixture
def gear(fleet):
    return fleet.gear()


# -- guards ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["weather", "mcp:weather:forecast"])
@pytest.mark.parametrize("kind", ["local", "fleet"])
def test_of_two_hundred_calls_with_an_expired_token_three_are_made(fleet, kind, tool):
    gear = Switchgear.local() if kind == "local" else fleet.gear()
    weather = Tool()
    found = ends(gear.guard(tool)(weather), *[""] * 200)
    assert found == REJECTED * 3 + ["refused"] * 197
    assert weather.made == 3
    assert gear.status().local == {}


@pytest.mark.parametrize("tool", ["weather", "mcp:weather:forecast"])
async def test_of_two_hundred_calls_of_a_coroutine_function_three_are_made(gear, tool):
    weather = Tool()

    @gear.guard(tool)
    async def guarded():
        await asyncio.sleep(0)
        return weather()

    for _ in range(200):
        with pytest.raises((UnauthorizedError, CredentialRefusedError)):
            await guarded()
    assert weather.made == 3


def test_the_text_tells_the_model_to_sign_in_again(gear):
    guarded = gear.guard("weather")(Tool())
    ends(guarded, *[""] * 3)
    with pytest.raises(CredentialRefusedError) as refused:
        guarded()
    error = refused.value
    assert str(error) == (
        "Your credentials for the tool weather were rejected 3 times in a row, so it was not called."
        " Sign in again, or use another tool."
    )
    assert isinstance(error, CircuitOpenError)
    assert (error.source, error.state, error.retry_after_s) == ("credential", "open", 60.0)
    assert error.message == (
        "The credentials for weather were rejected again and again (3 calls in a row); try again in 60.0 s."
    )


def test_rejections_of_two_tools_of_a_server_refuse_the_server(gear):
    one, other, third = (gear.guard(f"mcp:s:{name}")(Tool()) for name in "abc")
    assert ends(one, "", "") + ends(other, "", "") == REJECTED * 3 + ["refused"]
    with pytest.raises(CredentialRefusedError, match="Your credentials for the server mcp:s of the tool mcp:s:c were"):
        third()


def test_the_option_credential_tells_tokens_apart_and_a_new_token_is_tried_at_once(gear):
    weather = Tool("valid")
    guarded = gear.guard("weather", credential=lambda token: token)(weather)
    assert ends(guarded, *["expired"] * 5) == REJECTED * 3 + ["refused"] * 2
    assert ends(guarded, "valid", "expired", "valid") == ["sunny", "refused", "sunny"]
    assert ends(guarded, "another") == REJECTED


def test_the_option_credential_of_a_method_gets_no_self(gear):
    class Service:
        @gear.guard("weather", credential=lambda token: token)
        def weather(self, token):
            raise UnauthorizedError(token)

    assert ends(Service().weather, *["expired"] * 4) == REJECTED * 3 + ["refused"]
    assert ends(Service().weather, "other") == REJECTED


def test_an_option_credential_that_fails_or_returns_nothing_breaks_no_call(gear):
    def broken(token):
        raise KeyError(token)

    for option in (broken, lambda _token: None, lambda _token: 7, lambda _token: ""):
        guarded = gear.guard("weather", credential=option)(Tool("valid"))
        assert ends(guarded, "valid") == ["sunny"]


def test_a_probe_that_works_gives_the_tool_back(fleet, gear):
    weather = Tool()
    guarded = gear.guard("weather")(weather)
    assert ends(guarded, *[""] * 5) == REJECTED * 3 + ["refused"] * 2
    fleet.advance(61)
    weather.accepted.add("")
    assert ends(guarded, "", "") == ["sunny", "sunny"]
    assert not gear._decision.reporter.credentials.runs


def test_a_session_stands_for_the_credential_that_no_adapter_sees(gear):
    weather = Tool()
    guarded = gear.guard("weather")(weather)
    with gear.session("a"):
        assert ends(guarded, *[""] * 4) == REJECTED * 3 + ["refused"]
    weather.accepted.add("")
    with gear.session("b"):
        assert ends(guarded, "", "") == ["sunny", "sunny"]
    assert ends(guarded, "") == ["sunny"]
    with gear.session("a"):
        assert ends(guarded, "") == ["refused"]


def test_the_credential_of_a_session_goes_before_its_id(gear):
    guarded = gear.guard("weather")(Tool())
    for number in range(3):
        with gear.session(f"s{number}", credential=TOKEN):
            assert ends(guarded, "") == REJECTED
    with gear.session("s4", credential=TOKEN):
        assert ends(guarded, "") == ["refused"]
        assert gear.is_open("weather")
    with gear.session("s4", credential="new"):
        assert not gear.is_open("weather")
        assert ends(guarded, "") == REJECTED


def test_a_user_stands_for_it_where_there_is_no_session(gear):
    for _ in range(3):
        gear.try_acquire("t", user_id="ana").failure(UnauthorizedError())
    assert gear.try_acquire("t", user_id="ana").source == "credential"
    assert gear.try_acquire("t", user_id="ben")
    assert gear.try_acquire("t")


async def test_permits_of_every_kind_take_a_credential(gear):
    for _ in range(2):
        gear.try_acquire("t", credential=TOKEN).failure(UnauthorizedError())
    with pytest.raises(UnauthorizedError), gear.permit("t", credential=TOKEN):
        raise UnauthorizedError
    answers = [
        gear.try_acquire("t", credential=TOKEN),
        await gear.atry_acquire("t", credential=TOKEN),
        gear.try_acquire("t", credential=TOKEN, session_id="s", arguments={"q": 1}),
    ]
    assert [answer.source for answer in answers] == ["credential"] * 3
    with pytest.raises(CredentialRefusedError), gear.permit("t", credential=TOKEN):
        pytest.fail("it was entered")
    assert gear.try_acquire("t", credential="other")
    assert gear.try_acquire("t", session_id="s")


@pytest.mark.parametrize("value", [7, b"token", ["token"]])
def test_a_credential_that_is_no_text_is_refused_without_showing_it(gear, value):
    for call in (gear.try_acquire, gear.permit, gear.session):
        with pytest.raises(OptionError, match="credential must be a string") as refused:
            call("t", credential=value)
        assert "token" not in str(refused.value)


def test_a_call_that_is_given_back_leaves_the_probe_to_the_next(fleet, gear):
    for _ in range(3):
        gear.try_acquire("t").failure(UnauthorizedError())
    fleet.advance(61)
    gear.try_acquire("t").release()
    gear.try_acquire("t").ignore()
    gear.try_acquire("t").success()
    assert gear.try_acquire("t")


# -- what counts ----------------------------------------------------------------------------------------------------------


def test_results_that_say_so_count_like_exceptions(gear):
    meta = {"io.modelcontextprotocol/toolFailure": {"class": "governance", "code": "auth_required"}}
    result = {"isError": True, "content": [], "_meta": meta}
    found = ends(gear.guard("weather")(lambda _: result), *[""] * 4)
    assert found == [result] * 3 + ["refused"]


def test_a_hostile_server_refuses_the_holder_alone(fleet):
    calls = ToolCalls(fleet.gear())
    meta = {"io.modelcontextprotocol/toolFailure": {"class": "governance", "code": "auth_required"}}
    result = {"isError": True, "content": [], "_meta": meta}
    for _ in range(5):
        call = calls.begin("t", session_id="a", credential=TOKEN)
        if call:
            call.succeeded(result)
    assert not calls.begin("t", session_id="a", credential=TOKEN)
    assert calls.begin("t", session_id="a", credential="other")
    assert calls.begin("t", session_id="b")
    assert fleet.state("t") == "closed"


def test_the_refusal_as_structured_data_is_governance_and_another_guard_reads_it_as_auth(fleet):
    calls = ToolCalls(fleet.gear())
    for _ in range(3):
        calls.begin("t", session_id="a").failed(UnauthorizedError())
    refused = calls.begin("t", session_id="a")
    said = refused.tool_failure
    assert (said["class"], said["code"], said["retryable"]) == ("governance", "auth_required", False)
    result = {"isError": True, "content": [{"type": "text", "text": refused.text}]}
    meta = {"_meta": {"io.modelcontextprotocol/toolFailure": said}}
    assert calls.gear.classify_result("outer", result | meta) == Classification("auth")
    assert calls.gear.classify_result("outer", result) == Classification("policy")


@table("policy", [{"consecutive_auth_failures": None}, {"mode": "metrics_only"}, {"mode": "disabled"}])
def test_policies_that_refuse_nobody(policy):
    gear = Switchgear.local(local_policies=BreakerPolicy(**policy))
    assert ends(gear.guard("weather")(Tool()), *[""] * 10) == REJECTED * 10


def test_the_limit_is_the_policys():
    policies = PolicySet(
        {"consecutive_auth_failures": 5}, tools={"other": {"consecutive_auth_failures": "off"}}, base=LOCAL_DEFAULT
    )
    gear = Switchgear.local(local_policies=policies)
    assert ends(gear.guard("weather")(Tool()), *[""] * 6) == REJECTED * 5 + ["refused"]
    assert ends(gear.guard("other")(Tool()), *[""] * 6) == REJECTED * 6


# -- other steps ----------------------------------------------------------------------------------------------------------


def test_an_open_circuit_is_named_first_and_its_probe_is_not_lost(fleet, gear):
    guarded = gear.guard("weather")(Tool())
    ends(guarded, *[""] * 4)
    fleet.open_circuit("weather", for_s=10)
    assert ends(guarded, "") == ["CircuitOpenError"]
    fleet.advance(11)
    assert ends(guarded, "") == ["refused"]
    assert gear.try_acquire("weather", credential="other").probe


def test_neither_a_fallback_nor_a_stale_result_serves_a_refused_call(fleet, gear):
    gear.guard("backup")(lambda _: "from the backup")
    weather = Tool("")
    guarded = gear.guard("weather", fallback="backup", cache=CachePolicy(ttl_s=0.001, stale_for_s=60))(weather)
    assert ends(guarded, "") == ["sunny"]
    weather.accepted.clear()
    fleet.advance(1)
    assert ends(guarded, *[""] * 4) == REJECTED * 3 + ["refused"]


def test_a_tool_that_refuses_a_session_is_left_out_of_its_list_alone(fleet):
    gear = fleet.gear(tool_list="hide", hide_after_s=0)
    with gear.session("a"):
        for _ in range(3):
            gear.try_acquire("t").failure(UnauthorizedError())
        assert gear.available(["t", "other"]) == ["other"]
    assert gear.available(["t", "other"]) == ["t", "other"]


def test_the_hook_for_refusals_gets_it():
    seen = []
    gear = Switchgear.local(hooks=[FunctionHooks(on_rejected=seen.append)])
    ends(gear.guard("weather")(Tool()), *[""] * 5)
    assert [(each.tool, each.source, each.failures) for each in seen] == [("weather", "credential", 3)] * 2


def test_a_refusal_is_an_event_with_its_source(fleet, gear):
    with gear.session("s-1", user_id="ana"):
        ends(gear.guard("weather")(Tool()), *[""] * 4)
    events = fleet.events("weather")
    assert [(event["status"], event.get("error_class")) for event in events] == [("error", "auth")] * 3 + [
        ("rejected", None)
    ]
    assert events[-1]["metadata"] == {"refused": 1, "refused_by": "credential"}
    assert (events[-1]["session_id"], events[-1]["user_id"]) == ("s-1", "ana")


def test_no_event_log_or_refusal_shows_a_credential(fleet, caplog):
    caplog.set_level(logging.DEBUG)
    seen = []
    gear = fleet.gear(parameters_key=b"k", hooks=[FunctionHooks(on_rejected=seen.append, on_outcome=seen.append)])
    for _ in range(5):
        answer = gear.try_acquire("t", credential=TOKEN)
        seen.append(repr(answer))
        if isinstance(answer, Rejection):
            seen += [answer.text, answer.error(), repr(answer.error()), answer.error().message]
        else:
            answer.failure(UnauthorizedError("rejected"))
    seen += [gear.status(), fleet.events(), gear.circuits()]
    everything = f"{seen}{json.dumps(fleet.events(), default=str)}{caplog.text}"
    assert "credential" in everything
    assert "secret" not in everything
    assert "eyJ" not in everything


def test_hostile_credentials_are_bounded_and_break_no_call(gear):
    for credential in ("\ud800", "x" * 1_000_000, "a\x00b", "s-1", "session s-1"):
        for _ in range(4):
            answer = gear.try_acquire("t", credential=credential)
            if answer:
                answer.failure(UnauthorizedError())
        assert not answer
        gear.try_acquire("t", credential="valid").success()
    assert gear.try_acquire("t", session_id="s-1")


def test_an_impossible_credential_of_a_guard_is_refused_by_name(gear):
    with pytest.raises(SwitchgearError, match="The option credential"):
        gear.guard("t", credential="token")
