"""The demo's tools behave as documented: one breaks for stretches, one slows down, one flaps, the rest are well."""

import random
from statistics import median

import pytest

from switchgear.classify import classify
from switchgear.policies import PolicySet
from switchgear_cli.demo.agent import DEMO_METADATA
from switchgear_cli.demo.fleet import SERVICES
from switchgear_cli.demo.tools import (
    BROKEN_S,
    FAILING_CYCLE_S,
    FLAP_S,
    HEALTHY_S,
    SLOW_CYCLE_S,
    TOOLS,
    DemoServerError,
    DemoToolError,
    broken,
    call,
    choose,
)
from switchgear_cli.up.plan import demo_policy_file
from switchgear_schemas.policy import DEFAULT_COUNTED
from tests.support.table import table

FAILING, FLAPPING, SLOW = (
    next(tool for tool in TOOLS if tool.behaviour == behaviour) for behaviour in ("failing", "flapping", "slow")
)


def counted_failure_rate(tool, at, calls=2_000):
    chance = random.Random(1)
    errors = [call(tool, at, chance).error for _ in range(calls)]
    return sum(error is not None and classify(error).error_class in DEFAULT_COUNTED for error in errors) / calls


def test_the_demo_has_a_dozen_tools_with_different_names():
    assert len({tool.name for tool in TOOLS}) == 12
    assert all(tool.name.startswith("mcp:") for tool in TOOLS)


@table("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_is_well_when_it_is_not_broken(tool):
    assert counted_failure_rate(tool, 0.0) < 0.08


def test_the_failing_tool_breaks_for_one_stretch_of_each_cycle():
    for cycle in (0.0, FAILING_CYCLE_S, 5 * FAILING_CYCLE_S):
        assert not broken(FAILING, cycle + HEALTHY_S - 0.1)
        assert broken(FAILING, cycle + HEALTHY_S)
        assert broken(FAILING, cycle + HEALTHY_S + BROKEN_S - 0.1)
        assert not broken(FAILING, cycle + HEALTHY_S + BROKEN_S)


@pytest.mark.slow
def test_a_broken_tool_fails_nearly_always():
    assert counted_failure_rate(FAILING, HEALTHY_S + 1) > 0.9
    assert counted_failure_rate(FLAPPING, FLAP_S + 1) > 0.75


def test_the_failing_tool_recovers_within_two_minutes_of_the_start():
    policy = PolicySet.load(demo_policy_file()).effective(FAILING.name)
    # The last probe that fails comes just before the recovery; the longest wait is still ahead then.
    assert HEALTHY_S + BROKEN_S + policy.max_wait_duration_in_open_state_s + 10 < 120


def test_the_flapping_tool_alternates():
    states = [broken(FLAPPING, FLAP_S * (half + 0.5)) for half in range(4)]
    assert states == [False, True, False, True]


def test_the_slow_tool_gets_slow_beyond_its_policy_and_does_not_fail():
    policy = PolicySet.load(demo_policy_file()).effective(SLOW.name)
    chance = random.Random(1)
    well = [call(SLOW, 0.0, chance).duration_ms for _ in range(500)]
    slow = [call(SLOW, SLOW_CYCLE_S - 1, chance).duration_ms for _ in range(500)]
    assert median(well) < policy.slow_call_duration_threshold_ms < min(slow)
    assert counted_failure_rate(SLOW, SLOW_CYCLE_S - 1) < 0.1


def test_a_tool_that_says_no_is_not_counted_against_it():
    assert classify(DemoToolError("bad argument")).error_class == "invalid_input"
    assert classify(DemoServerError("503")).error_class == "transport"


@pytest.mark.slow
def test_tools_are_called_by_their_weight():
    chance = random.Random(1)
    calls = [choose(chance).name for _ in range(10_000)]
    assert calls.count(FAILING.name) > 3 * calls.count("mcp:email:send_message")
    assert set(calls) == {tool.name for tool in TOOLS}


def test_the_demos_policies_are_valid_and_wait_no_longer_than_a_viewer_would():
    policies = PolicySet.load(demo_policy_file())
    for tool in TOOLS:
        policy = policies.effective(tool.name)
        assert policy.max_wait_duration_in_open_state_s <= 20
        assert policy.cusum is not None


def test_the_traffic_is_labelled_and_comes_from_enough_processes():
    policy = PolicySet.load(demo_policy_file()).effective(FAILING.name)
    assert len(SERVICES) >= policy.minimum_reporters
    assert all(service.startswith("demo-") for service in SERVICES)
    assert DEMO_METADATA == {"demo": True}
