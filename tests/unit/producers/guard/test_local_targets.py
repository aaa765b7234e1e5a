"""With ``target`` in a tool's policy, each target has a circuit of its own in the process: one dead site is refused, the tool stays."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
from switchgear.breaker.values import MAX_CIRCUITS_PER_TOOL
from switchgear.classify.tool_failure import is_refusal
from switchgear.guard.local_circuits import LocalBreakers
from switchgear.guard.rejections import Caller
from switchgear.integrations.tool_calls import RefusedCall, ToolCalls
from tests.support.clock import Clock

FETCH = "mcp:fetch:fetch"
POLICY = BreakerPolicy(consecutive_failures=2, target="url.host")
DEAD, GOOD = "https://dead.org/x", "https://good.org/y"


@pytest.fixture
def gear():
    return Switchgear.local(local_policies=POLICY)


def fetcher(gear, **options):
    @gear.guard(FETCH, **options)
    def fetch(url, raw=False):
        if "dead" in str(url):
            raise ConnectionError("refused")
        return f"page {raw}"

    return fetch


def fails(call, url, times=2):
    for _ in range(times):
        with pytest.raises(ConnectionError):
            call(url)


def test_one_dead_site_is_refused_and_the_tool_stays(gear):
    fetch = fetcher(gear)
    fails(fetch, DEAD)
    with pytest.raises(CircuitOpenError) as refused:
        fetch(url=DEAD)
    assert fetch(GOOD) == "page False"
    assert fetch("not a url") == "page False"
    rejection = refused.value.rejection
    assert (rejection.tool, rejection.target, rejection.scope) == (FETCH, "dead.org", "target")
    assert gear.status().local == {f"{FETCH}@dead.org": "open"}
    assert not gear.is_open(FETCH)


def test_a_refused_target_names_it_to_its_caller_and_in_no_notice(gear):
    fetch = fetcher(gear)
    fails(fetch, DEAD)
    with pytest.raises(CircuitOpenError) as refused:
        fetch(DEAD)
    assert str(refused.value).startswith(f"The tool {FETCH} is unavailable for dead.org (circuit open). ")
    assert "Do not call it for dead.org again within the next 60 s." in str(refused.value)
    assert refused.value.message.startswith(f"The local circuit of {FETCH} for dead.org is open")
    assert is_refusal(str(refused.value))
    assert gear.notice() == ""
    assert gear.available([FETCH]) == [FETCH]


def test_a_call_without_a_readable_target_counts_for_the_tool(gear):
    fetch = fetcher(gear)
    fails(fetch, "dead link")
    with pytest.raises(CircuitOpenError) as refused:
        fetch("another dead link")
    assert (refused.value.rejection.scope, refused.value.rejection.target) == ("tool", "")
    assert fetch(GOOD) == "page False"
    assert gear.notice().startswith(f"These tools are unavailable: {FETCH}. ")


def test_targets_of_one_tool_never_open_its_server_by_what_it_answers():
    gear = Switchgear.local(local_policies=POLICY)
    calls = ToolCalls(gear)
    for number in range(12):
        for tool in (FETCH, "mcp:fetch:head"):
            call = calls.begin(tool, given={"url": f"https://dead{number}.org/"})
            assert call, call
            call.succeeded(
                {"content": "Failed to fetch: ConnectError('All connection attempts failed')", "isError": True}
            )
    assert gear.status().local == {}
    for tool in (FETCH, "mcp:fetch:head"):
        calls.begin(tool, given={"url": "https://dead0.org/"}).failed("connection refused", failure="tool")
    assert set(gear.status().local) == {f"{FETCH}@dead0.org", "mcp:fetch:head@dead0.org"}


def test_a_server_that_dies_opens_for_all_its_targets():
    calls = ToolCalls(Switchgear.local(local_policies=POLICY))
    for number in range(5):
        call = calls.begin(FETCH if number % 2 else "mcp:fetch:head", given={"url": f"https://s{number}.org/"})
        call.failed(ConnectionError("the server is gone"))
    refused = calls.begin(FETCH, given={"url": GOOD})
    assert isinstance(refused, RefusedCall)
    assert refused.rejection.family == "mcp:fetch"


@pytest.mark.parametrize(
    ("text", "opens"),
    [
        ("connection refused", True),
        ("Failed to fetch u - status code 503", True),
        ("status code 404", False),
        ("no text", False),
    ],
)
def test_an_answer_about_a_target_counts_there_by_the_outage_in_its_text(gear, text, opens):
    calls = ToolCalls(gear)
    for _ in range(2):
        calls.begin(FETCH, given={"url": DEAD}).succeeded({"content": text, "isError": True})
    assert (gear.status().local == {f"{FETCH}@dead.org": "open"}) is opens


def test_without_a_target_in_the_policy_texts_count_nowhere_and_nothing_is_split():
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=2))
    calls = ToolCalls(gear)
    for _ in range(2):
        call = calls.begin(FETCH, given={"url": DEAD})
        call.succeeded({"content": "connection refused", "isError": True})
    assert gear.status().local == {}
    permit = gear.try_acquire(FETCH, target="dead.org")
    assert permit.caller.target == ""


def test_caller_errors_of_one_site_refuse_that_site_alone(gear):
    calls = ToolCalls(gear)
    with gear.session("s"):
        for number in range(3):
            given = {"url": f"https://dead.org/{number}"}
            calls.begin(FETCH, given=given).succeeded({"content": "404 not found", "isError": True})
        refused = calls.begin(FETCH, given={"url": DEAD})
        assert isinstance(refused, RefusedCall)
        assert (refused.rejection.source, refused.rejection.target) == ("caller", "dead.org")
        assert refused.text.startswith(f"Your last 3 calls of {FETCH} for dead.org were rejected: ")
        assert is_refusal(refused.text)
        assert calls.begin(FETCH, given={"url": GOOD})
        assert gear.notice() == ""


def test_the_arguments_of_a_method_a_partial_and_a_dispatcher_name_the_target(gear):
    class Browser:
        @gear.guard(FETCH)
        def open(self, url):
            raise ConnectionError("refused")

    @gear.guard(FETCH)
    def dispatch(name, arguments):
        raise ConnectionError("refused")

    fails(Browser().open, "https://method.org")
    with pytest.raises(ConnectionError):
        dispatch("fetch", {"url": "https://nested.org"})
    with pytest.raises(ConnectionError):
        dispatch("fetch", arguments={"url": "https://nested.org"})
    assert set(gear.status().local) == {f"{FETCH}@method.org", f"{FETCH}@nested.org"}


async def test_coroutines_and_streams_have_targets_too(gear):
    @gear.guard(FETCH)
    async def fetch(url):
        raise ConnectionError("refused")

    @gear.guard(FETCH)
    async def stream(url):
        yield 1
        raise ConnectionError("refused")

    for _ in range(2):
        with pytest.raises(ConnectionError):
            await fetch("https://coroutine.org")
        with pytest.raises(ConnectionError):
            _ = [item async for item in stream("https://stream.org")]
    assert set(gear.status().local) == {f"{FETCH}@coroutine.org", f"{FETCH}@stream.org"}


def test_a_permit_may_name_the_target_itself(gear):
    for _ in range(2):
        gear.try_acquire(FETCH, target="dead.org").failure(ConnectionError("x"))
    assert gear.try_acquire(FETCH, target="dead.org").target == "dead.org"
    with gear.permit(FETCH, target="good.org") as permit:
        assert permit.caller.target == "good.org"
    assert gear.try_acquire(FETCH, arguments={"url": DEAD}).target == "dead.org"
    assert gear.try_acquire(FETCH, target="x\ny").caller.target == ""
    assert gear.target_of(FETCH, {"url": DEAD}) == "dead.org"


def test_a_target_beyond_the_limit_shares_the_tools_circuit():
    local = LocalBreakers(POLICY, Clock(0.0))
    for number in range(MAX_CIRCUITS_PER_TOOL):
        local.get(FETCH, Caller(target=f"s{number}.org"))
    assert local.get(FETCH, Caller(target="one.more")).breaker.circuit_id == FETCH
    assert local.circuits == {}


def test_a_tool_called_like_a_target_has_its_own_circuit(gear):
    fails(fetcher(gear), DEAD)
    named = f"{FETCH}@dead.org"
    with gear.permit(named):
        pass
    assert not gear.is_open(named)
    assert set(gear.status().local) == {named}
