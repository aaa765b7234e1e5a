"""The tools of the load: when they are down, and that the promises know their policies."""

from itertools import pairwise
from pathlib import Path

import pytest

from switchgear.policies import PolicySet
from tests.chaos.load.tools import DOWN_S, GUARDED, PERIOD_S, PERMITTED, SERVERS, is_down
from tests.chaos.promises.recount import COUNTED, UNANSWERED
from tests.chaos.promises.several_tools import FEWEST, WINDOW_S
from tests.chaos.servers import server_circuit

pytestmark = pytest.mark.deep

POLICIES = PolicySet.load(Path(__file__).with_name("policies.toml"))
STEP_S = 0.1


def moments(periods):
    return [1_700_000_000 + step * STEP_S for step in range(round(periods * PERIOD_S / STEP_S))]


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_dies_with_all_its_tools_and_then_one_of_them_is_broken_alone(server):
    tools = SERVERS[server]
    down = [frozenset(tool for tool in tools if is_down(tool, at)) for at in moments(len(tools))]
    assert set(down) == {frozenset(), frozenset(tools)} | {frozenset({tool}) for tool in tools}
    assert down.count(frozenset(tools)) * STEP_S == pytest.approx(len(tools) * DOWN_S, abs=1)


@pytest.mark.parametrize("server", SERVERS)
def test_a_broken_tool_fails_farther_from_an_outage_than_the_window_of_its_server(server):
    tools = SERVERS[server]
    ends = [(at, sum(is_down(tool, at) for tool in tools)) for at in moments(len(tools))]
    failing = [(at, number) for at, number in ends if number]
    gaps = [later - at for (at, before), (later, after) in pairwise(failing) if before != after]
    assert len(gaps) >= 2 * len(tools) - 1
    assert min(gaps) >= WINDOW_S


def test_a_tool_of_no_server_fails_and_recovers_on_its_own():
    assert {is_down("guarded:one-0:tool", at) for at in moments(1)} == {False, True}


def test_the_promises_know_the_policies_of_the_run():
    for tool in GUARDED:
        policy = POLICIES.effective(tool)
        assert policy.permitted_number_of_calls_in_half_open_state == policy.success_threshold_to_close
        assert policy.permitted_number_of_calls_in_half_open_state == PERMITTED[tool]
        assert policy.counted_error_classes == COUNTED
    for server in SERVERS:
        policy = POLICIES.effective_family(server)
        assert policy.permitted_number_of_calls_in_half_open_state == policy.success_threshold_to_close
        assert policy.permitted_number_of_calls_in_half_open_state == PERMITTED[server_circuit(server)]
        assert policy.counted_error_classes == UNANSWERED
        assert policy.sliding_window_size == WINDOW_S
        assert policy.minimum_tools == FEWEST
