"""What goes with the outcome of a call: usage, failures in results, classifications and repeated calls."""

from __future__ import annotations

import asyncio

import pytest

from switchgear import (
    BreakerPolicy,
    CachePolicy,
    CircuitOpenError,
    Classification,
    DuplicateCallError,
    Rejection,
    Switchgear,
    SwitchgearError,
    Usage,
)
from switchgear.testing import InMemoryFleet


@pytest.fixture
def fleet():
    return InMemoryFleet()


@pytest.fixture
def remote(fleet):
    return fleet.gear("planner", local_policies=BreakerPolicy(consecutive_failures=2), parameters_key=b"k")


def events(fleet, gear, tool="t"):
    gear.flush()
    return fleet.events(tool)


# -- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "fields"),
    [
        (7, {"output_tokens": 7}),
        (Usage(1, 2, 3, 0.25), {"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 3, "cost_usd": 0.25}),
        (None, {}),
        (Usage(), {}),
    ],
)
def test_the_extractors_usage_goes_with_the_event(fleet, remote, usage, fields):
    remote.with_options(usage=lambda _result: usage).call("t", lambda: "x")
    (event,) = events(fleet, remote)
    names = ("input_tokens", "output_tokens", "cache_creation_tokens", "cost_usd")
    assert {name: event[name] for name in names if event.get(name)} == fields


@pytest.mark.parametrize("usage", ["seven", -1, float("nan"), True, [7], Usage(output_tokens=-3)])
def test_an_invalid_usage_is_logged_and_the_caller_gets_the_result(gear, usage, caplog):
    assert gear.with_options(usage=lambda _result: usage).call("t", lambda: "x") == "x"
    assert "the usage of t could not be read: ReportError" in caplog.text


def test_a_failing_usage_extractor_is_logged_and_the_caller_gets_the_result(gear, caplog):
    guarded = gear.guard("t", usage=lambda result: result["usage"])(lambda: {"text": "x"})
    assert [guarded(), guarded()] == [{"text": "x"}] * 2
    assert caplog.text.count("the usage of t could not be read: KeyError: 'usage'") == 1


def test_tokens_of_a_failed_call_are_wasted_and_open_the_circuit():
    gear = Switchgear.local(local_policies=BreakerPolicy(wasted_tokens=100))
    for _ in range(2):
        permit = gear.try_acquire("t")
        permit.tokens(30)
        permit.tokens(Usage(input_tokens=20))
        permit.failure(ConnectionError())
    assert gear.is_open("t")


class CutOffError(ConnectionError):
    """An answer that broke off. Its tokens are spent."""

    tokens = 60


def break_off(*_args):
    raise CutOffError("cut off")


async def abreak_off():
    break_off()


def awaited_later():
    return abreak_off()


def stream_that_breaks_off():
    yield Usage(output_tokens=5)
    break_off()


async def astream_that_breaks_off():
    yield Usage(output_tokens=5)
    break_off()


def spent(found):
    """Return what an item or an exception cost."""
    return found if isinstance(found, Usage) else found.tokens


async def read(stream):
    return [item async for item in stream]


def test_tokens_of_a_guarded_function_that_raises_are_wasted_and_open_the_circuit():
    gear = Switchgear.local(local_policies=BreakerPolicy(wasted_tokens=100))
    guarded = gear.guard("t", usage=spent)(break_off)
    for _ in range(2):
        with pytest.raises(CutOffError):
            guarded()
    with pytest.raises(CircuitOpenError):
        guarded()


async def test_the_usage_of_a_failed_call_counts_in_the_sessions_budget(gear):
    run = gear.with_options(usage=spent)
    with gear.session("s-1", token_budget=1_000) as session:
        with pytest.raises(CutOffError):
            run.call("a", break_off)
        with pytest.raises(CutOffError):
            await run.acall("b", abreak_off)
        with pytest.raises(CutOffError):
            list(run.guard("c")(stream_that_breaks_off)())
        with pytest.raises(CutOffError):
            await read(run.guard("d")(astream_that_breaks_off)())
        with pytest.raises(CutOffError):
            await run.call("e", awaited_later)
    assert session.status().tokens == 60 + 60 + 65 + 65 + 60


def test_the_event_of_a_failed_call_says_what_it_cost(fleet, remote):
    with pytest.raises(CutOffError):
        remote.with_options(usage=lambda found: Usage(1, found.tokens, 3, 0.25)).call("t", break_off)
    (event,) = events(fleet, remote)
    names = ("error_class", "input_tokens", "output_tokens", "cache_creation_tokens", "cost_usd")
    assert [event[name] for name in names] == ["transport", 1, 60, 3, 0.25]


def test_an_extractor_that_only_knows_results_is_not_blamed_for_an_exception(gear, caplog):
    guarded = gear.guard("t", usage=lambda result: result["usage"])(break_off)
    with gear.session("s-1") as session, pytest.raises(CutOffError) as caught:
        guarded()
    assert (session.status().tokens, caplog.text, caught.value.__cause__) == (0, "", None)


@pytest.mark.parametrize("usage", ["seven", -1, float("nan"), True, [7], Usage(cost_usd=float("inf")), 10**400])
def test_an_impossible_usage_of_an_exception_is_none_and_the_exception_reaches_the_caller(gear, usage, caplog):
    with gear.session("s-1") as session, pytest.raises(CutOffError):
        gear.with_options(usage=lambda _found: usage).call("t", break_off)
    assert (session.status().tokens, session.status().failures, caplog.text) == (0, 1, "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_end_that_is_no_failure_of_the_tool_is_not_asked_for_its_usage(gear, error):
    asked = []

    def end():
        raise error

    with pytest.raises(error):
        gear.with_options(usage=asked.append).call("t", end)
    assert asked == []


def test_arguments_that_do_not_fit_are_not_asked_for_their_usage(gear):
    asked = []
    with pytest.raises(TypeError):
        gear.with_options(usage=asked.append).call("t", lambda city: city)
    assert asked == []


def test_reports_after_the_end_of_a_permit_do_nothing(gear):
    permit = gear.try_acquire("t")
    permit.success()
    permit.tokens(5)
    permit.success(output_tokens=7)
    permit.failure(ConnectionError())
    permit.release()
    with pytest.raises(SwitchgearError):
        permit.tokens(-1)


def test_usages_add_up():
    assert Usage(1, 2, 3, 0.5) + Usage(10, 20, 30, 0.25) == Usage(11, 22, 33, 0.75)
    assert Usage(1, 2, 3).tokens == 6


# -- failures in a result ---------------------------------------------------------------------------------------------

MCP_ERROR = {"isError": True, "content": [{"type": "text", "text": "no such city"}]}


def test_an_mcp_error_is_reported_as_the_tools_own_and_opens_nothing(fleet, remote):
    guarded = remote.guard("t", cache=CachePolicy(ttl_s=600))(lambda: MCP_ERROR)
    for _ in range(5):
        assert guarded() is MCP_ERROR, "the caller gets the result, and it is not kept"
    found = events(fleet, remote)
    assert [(event["status"], event["error_class"], event["error_message"]) for event in found] == [
        ("error", "tool", "no such city")
    ] * 5


@pytest.mark.parametrize("classification", ["server", Classification("server")])
def test_a_rule_of_the_guard_decides_which_results_are_failures(gear, classification):
    guarded = gear.guard("t", classify_result=lambda result: classification if result is None else None)(
        lambda found: found
    )
    assert guarded(1) == 1
    for _ in range(2):
        assert guarded(None) is None
    with pytest.raises(CircuitOpenError):
        guarded(1)


async def test_a_classify_result_rule_decides_for_coroutine_functions(gear):
    async def search():
        return None

    guarded = gear.guard("t", classify_result=lambda _result: "server")(search)
    for _ in range(2):
        assert await guarded() is None
    assert gear.is_open("t")


def test_a_failing_classify_result_rule_reports_a_success(gear, caplog):
    assert gear.with_options(classify_result=lambda result: result.nothing).call("t", lambda: 1) == 1
    assert "classify_result of t failed: AttributeError" in caplog.text


# -- the classify option of a guard --------------------------------------------------------------------------------


def test_the_guards_classify_goes_before_the_clients_unless_it_returns_none():
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1), classify=lambda _error: "invalid_input"
    )

    def fail(error):
        raise error

    strict = gear.with_options(classify=lambda error: "server" if isinstance(error, KeyError) else None)
    for tool, error in (("a", KeyError()), ("b", ConnectionError())):
        with pytest.raises(type(error)):
            strict.call(tool, fail, error)
    assert (gear.is_open("a"), gear.is_open("b")) == (True, False)


def test_a_failing_classify_rule_leaves_the_tools_exception_to_the_caller(gear, caplog):
    guarded = gear.with_options(classify=lambda error: error.nothing)
    with pytest.raises(ZeroDivisionError):
        guarded.call("t", lambda: 1 // 0)
    assert "classify of t failed: AttributeError" in caplog.text


# -- duplicates -------------------------------------------------------------------------------------------------------


def test_on_duplicate_is_called_from_the_third_identical_call_of_a_session_on(gear):
    usage = []
    guarded = gear.guard("t", on_duplicate=usage.append)(lambda city: city)
    for name in ("s-1", "s-2"):
        with gear.session(name):
            for city in ("Oslo", "Oslo", "Bergen", "Oslo", "Oslo"):
                guarded(city)
    assert [(one.tool, one.session_id, one.count) for one in usage] == [
        ("t", "s-1", 3),
        ("t", "s-1", 4),
        ("t", "s-2", 3),
        ("t", "s-2", 4),
    ]


def test_a_refused_duplicate_has_a_text_for_the_model(gear):
    guarded = gear.guard("t", on_duplicate="refuse", duplicate_after=2)(lambda city: city)
    with gear.session("s-1"):
        guarded("Oslo")
        with pytest.raises(DuplicateCallError) as caught:
            guarded("Oslo")
        assert guarded("Bergen") == "Bergen"
    assert caught.value.message == "The same call of t was made again and again (the same call was made 2 times)."
    assert str(caught.value) == (
        "The tool t was not called: the same call was made 2 times. Do not repeat this call; use the result you have,"
        " change the parameters, or go on without it."
    )
    assert isinstance(caught.value.rejection, Rejection)


@pytest.mark.parametrize("cache", [CachePolicy(ttl_s=0, stale_for_s=600), CachePolicy(ttl_s=60)])
def test_a_duplicate_is_refused_even_if_a_cached_result_exists(gear, cache):
    calls = []
    guarded = gear.guard("t", on_duplicate="refuse", duplicate_after=2, cache=cache)(calls.append)
    with gear.session():
        guarded("Oslo")
        with pytest.raises(DuplicateCallError):
            guarded("Oslo")
    assert calls == ["Oslo"]


def test_a_refused_duplicate_uses_no_fallback(gear):
    gear.guard("b")(lambda _city: pytest.fail("not called"))
    guarded = gear.guard("t", on_duplicate="refuse", duplicate_after=2, fallback="b")(lambda city: city)
    guarded("Oslo")
    with pytest.raises(DuplicateCallError):
        guarded("Oslo")


def test_a_failing_on_duplicate_function_does_not_end_the_call(gear, caplog):
    guarded = gear.guard("t", on_duplicate=lambda found: found.nothing, duplicate_after=2)(lambda: 1)
    assert [guarded(), guarded(), guarded()] == [1, 1, 1]
    assert caplog.text.count("on_duplicate of t failed: AttributeError") == 1


def test_events_of_a_session_say_how_often_the_call_was_made_and_carry_its_hash(fleet, remote):
    with remote.session("s-1"):
        for city in ("Oslo", "Oslo", "Bergen", "Oslo"):
            remote.call("t", str, city)
    found = events(fleet, remote)
    assert [event.get("metadata", {}).get("duplicates") for event in found] == [None, 2, None, 3]
    assert len({event["parameters_hash"] for event in found}) == 2


def test_events_carry_no_hash_without_a_parameters_key(fleet):
    gear = fleet.gear("planner")
    with gear.session("s-1"):
        gear.with_options(single_flight=True).call("t", str, "Oslo")
    (event,) = events(fleet, gear)
    assert "parameters_hash" not in event
