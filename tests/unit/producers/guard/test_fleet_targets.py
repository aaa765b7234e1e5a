"""All processes split a tool by the ``target`` of the fleet's record, whatever their own policies say."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, CircuitOpenError, FunctionHooks
from switchgear.integrations.tool_calls import ToolCalls
from switchgear.testing import InMemoryFleet

FETCH = "mcp:fetch:fetch"
SPLIT = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=30, target="url.host")
PLAIN = SPLIT.model_copy(update={"target": None})
DEAD, GOOD = "https://dead.org/x", "https://good.org/y"


@pytest.fixture
def fleet():
    return InMemoryFleet({FETCH: SPLIT})


def fetcher(gear):
    @gear.guard(FETCH)
    def fetch(url):
        if "dead" in url:
            raise ConnectionError("refused")
        return "page"

    return fetch


def announced(fleet, *gears):
    """Make the first call, whose event lets the fleet announce the tool's target."""
    gears[0].try_acquire(FETCH).success()
    assert fleet.circuits()[FETCH].target == "url.host"
    return [fetcher(gear) for gear in gears]


def fails(fetch, times=1):
    for _ in range(times):
        with pytest.raises(ConnectionError):
            fetch(DEAD)


def test_processes_split_by_the_target_of_the_fleets_record(fleet):
    one, other = announced(fleet, fleet.gear(), fleet.gear(local_policies=PLAIN))
    fails(one)
    fails(other, 2)
    assert fleet.circuits()[f"{FETCH}@dead.org"].state == "open"
    for fetch in (one, other):
        with pytest.raises(CircuitOpenError) as refused:
            fetch(DEAD)
        assert (refused.value.rejection.source, refused.value.rejection.target) == ("fleet", "dead.org")
        assert fetch(GOOD) == "page"
    assert fleet.circuits()[FETCH].state == "closed"


def test_a_fast_guard_notices_that_the_fleet_splits_its_tool(fleet):
    gear = fleet.gear()
    fetch = fetcher(gear)
    assert fetch(GOOD) == fetch(GOOD) == "page"
    fails(fetch, 3)
    assert [event.get("target") for event in fleet.events(FETCH)][-3:] == ["dead.org"] * 3
    with pytest.raises(CircuitOpenError):
        fetch(DEAD)
    assert fetch(GOOD) == "page"


def test_the_probe_of_a_target_is_the_targets(fleet):
    (fetch,) = announced(fleet, fleet.gear())
    fails(fetch, 3)
    fleet.advance(31)
    fails(fetch)
    assert fleet.circuits()[f"{FETCH}@dead.org"].state == "open"
    fleet.advance(61)
    gear = fleet.gear()
    for _ in range(SPLIT.success_threshold_to_close):
        permit = gear.try_acquire(FETCH, target="dead.org")
        assert permit.probe
        permit.success()
    assert fleet.circuits()[f"{FETCH}@dead.org"].state == "closed"


def test_what_the_tools_own_circuit_counts_refuses_no_target_and_a_command_does(fleet):
    gear = fleet.gear()
    (fetch,) = announced(fleet, gear)
    for _ in range(3):
        gear.try_acquire(FETCH).failure(ConnectionError("x"))
    assert fleet.circuits()[FETCH].state == "open"
    assert not gear.try_acquire(FETCH)
    assert fetch(GOOD) == "page"
    fleet.command(FETCH, "force_open")
    with pytest.raises(CircuitOpenError) as refused:
        fetch("https://new.org/")
    assert refused.value.state == "forced_open"
    with pytest.raises(CircuitOpenError):
        fetch(GOOD)


def test_a_refused_target_is_in_no_notice_of_any_process(fleet):
    one, other = fleet.gear(), fleet.gear()
    fetch, _ = announced(fleet, one, other)
    fails(fetch, 3)
    for gear in (one, other):
        assert gear.notice() == ""
        assert gear.available([FETCH]) == [FETCH]
        assert not gear.is_open(FETCH)


def test_refusals_are_summed_by_target(fleet):
    gear = fleet.gear()
    (fetch,) = announced(fleet, gear)
    fails(fetch, 3)
    for _ in range(3):
        with pytest.raises(CircuitOpenError):
            fetch(DEAD)
    fleet.advance(2)
    gear.flush()
    rejected = [event for event in fleet.events(FETCH) if event["status"] == "rejected"]
    assert {event["target"] for event in rejected} == {"dead.org"}
    assert sum(event["metadata"]["refused"] for event in rejected) == 3


def test_answered_outages_of_targets_open_them_and_never_their_server(fleet):
    gear = fleet.gear()
    announced(fleet, gear)
    calls = ToolCalls(gear)
    for _ in range(3):
        call = calls.begin(FETCH, given={"url": DEAD})
        call.succeeded({"content": "Failed to fetch: ConnectError('All connection attempts failed')", "isError": True})
    circuits = fleet.circuits()
    assert circuits[f"{FETCH}@dead.org"].state == "open"
    assert "mcp:fetch|family" not in circuits or circuits["mcp:fetch|family"].state == "closed"
    assert fleet.events(FETCH)[-1]["error_type"] == "TargetError"


def test_hooks_hear_of_the_circuit_of_a_target(fleet):
    heard = []
    gear = fleet.gear(hooks=[FunctionHooks(on_transition=heard.append)])
    (fetch,) = announced(fleet, gear)
    fails(fetch, 3)
    (change,) = [each for each in heard if each.state == "open" and each.source == "fleet"]
    assert (change.circuit_id, change.tool) == (f"{FETCH}@dead.org", FETCH)
