"""What the circuits say of a tool, for a list that a model sees."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy
from switchgear.testing import InMemoryFleet
from switchgear.tool_list import REFUSES, UP, Condition
from tests.support.clock import Clock
from tests.support.local_client import local_client

ONE = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=60)
DUE = Condition(down=True, probe="due")


def said(gear, tool="t"):
    return gear._runtime.condition(tool, in_session=True)


def fail(gear, tool="t"):
    gear.try_acquire(tool).failure(ConnectionError("down"))


def test_of_the_process_alone():
    clock = Clock()
    gear = local_client(clock, local_policies=ONE)
    assert said(gear) == UP
    fail(gear)
    assert said(gear) == REFUSES
    clock.now += 60
    assert said(gear) == DUE
    assert gear._runtime.ask_ahead("t", in_session=True), "there is nobody to ask"
    probe = gear.try_acquire("t")
    assert said(gear) == REFUSES
    probe.success()
    assert said(gear) == UP


def test_of_the_fleet_and_the_one_process_that_gets_the_lease():
    fleet = InMemoryFleet(ONE)
    gear, other = fleet.gear("gear"), fleet.gear("other")
    fleet.report("t", "error")
    assert [said(each) for each in (gear, other)] == [REFUSES, REFUSES]
    fleet.advance(60)
    assert [said(each) for each in (gear, other)] == [DUE, DUE]
    assert not gear._runtime.ask_ahead("t", in_session=True)
    assert not other._runtime.ask_ahead("t", in_session=True)
    assert said(gear) == Condition(down=True, probe="held")
    assert said(other) == REFUSES
    permit = gear.try_acquire("t")
    assert permit.probe
    assert said(gear) == Condition(down=True)
    permit.success()
    assert [said(each) for each in (gear, other)] == [UP, UP]
    asked = [event for event in fleet.events("t") if event["status"] == "rejected"]
    assert len({event["emitter_id"] for event in asked}) == len(asked) == 2


def test_of_a_fleet_that_can_not_be_reached():
    fleet = InMemoryFleet(ONE)
    gear = fleet.gear()
    fleet.report("t", "error")
    fleet.advance(60)
    fleet.cut(gear)
    fleet.advance(20)
    assert said(gear) == DUE
    assert gear._runtime.ask_ahead("t", in_session=True), "nobody answers"


@pytest.mark.parametrize("verb", ["disable", "metrics_only"])
def test_an_operators_word_counts_for_more_than_the_process(verb):
    fleet = InMemoryFleet(ONE)
    gear = fleet.gear(local_policies=ONE)
    fail(gear)
    assert said(gear) == REFUSES
    fleet.command("t", verb)
    assert said(gear) == UP


def test_a_tool_of_a_server_that_is_down_is_down():
    fleet = InMemoryFleet(ONE)
    gear = fleet.gear()
    fleet.open_circuit("mcp:a", family=True, for_s=60)
    assert said(gear, "mcp:a:t") == REFUSES
    fleet.advance(60)
    assert said(gear, "mcp:a:t") == DUE
    assert said(gear, "mcp:b:t") == UP


def test_a_session_is_refused_by_its_own_circuits_and_when_it_is_over():
    gear = local_client(Clock(), local_policies=ONE)
    with gear.session(max_calls=2):
        fail(gear)
        assert said(gear) == REFUSES
        assert gear._runtime.condition("t", in_session=False) == UP
        assert said(gear, "u") == UP
        fail(gear, "u")
        assert said(gear, "v") == REFUSES
