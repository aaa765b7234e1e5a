from collections import Counter
from random import Random

import pytest

from switchgear_schemas.policy import FLEET_DEFAULT
from tests.simulator.scenario import BY_DEGREES, CALL_LIMIT_S, GROWING_WAIT, THREE_PROBES, Scenario
from tests.simulator.tools import KINDS, SERVER_KINDS, Outage, Schedule, SimulatedServer, SimulatedTool, make_tools


@pytest.fixture
def tools():
    return make_tools(Scenario(hours=10, outage_every_s=1_000), Random(1))


def of_kind(kind):
    tool = SimulatedTool(0, Scenario(outage_every_s=0), 1.0, Random(1))
    tool.schedule = Schedule([Outage(100.0, 200.0, kind)])
    return tool


def of_server(kind):
    scenario = Scenario(outage_every_s=0, server_outage_every_s=0)
    server = SimulatedServer(0, scenario, Random(1))
    tool = SimulatedTool(0, scenario, 1.0, Random(1), server)
    server.schedule = Schedule([Outage(100.0, 200.0, kind)])
    return server, tool


def errors(tool, now, calls=2_000):
    rng = Random(3)
    found = [tool.call(now, rng) for _ in range(calls)]
    return Counter(one.error.classification.error_class if one.error else None for one in found), found


@pytest.mark.slow
def test_outages_of_a_tool_follow_each_other_within_the_simulation(tools):
    assert sum(len(tool.schedule.outages) for tool in tools) > 1_000
    for tool in tools:
        for before, after in zip(tool.schedule.outages, tool.schedule.outages[1:], strict=False):
            assert before.start < before.end < after.start < 36_000
    assert {outage.kind for tool in tools for outage in tool.schedule.outages} == set(KINDS)


def test_the_calls_of_all_tools_add_up_and_a_few_tools_have_most_of_them(tools):
    rates = [tool.calls_per_s for tool in tools]
    assert sum(rates) == pytest.approx(80.0)
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 30 * rates[-1]


def test_tools_differ_in_policy_and_in_their_own_errors(tools):
    assert [tool.policy for tool in tools[:4]] == [FLEET_DEFAULT, THREE_PROBES, BY_DEGREES, GROWING_WAIT]
    assert all(0.01 <= tool.error_rate <= 0.05 for tool in tools)
    assert sum(tool.foreign for tool in tools) == 23


def test_a_tool_knows_since_when_it_is_healthy():
    tool = of_kind("down")
    assert tool.healthy_since(50.0) == 0.0
    assert tool.healthy_since(150.0) is None
    assert tool.healthy_since(200.0) == 200.0
    at = tool.schedule.at
    assert (at(99.9), at(100.0).kind, at(200.0)) == (None, "down", None)


def test_a_healthy_tool_fails_at_its_base_rate():
    tool = of_kind("down")
    found, calls = errors(tool, 0.0)
    assert found[None] > 1_800
    assert found["server"] + found["transport"] == pytest.approx(2_000 * tool.error_rate, rel=0.5)
    assert found["invalid_input"] > 0
    assert all(one.seconds <= CALL_LIMIT_S for one in calls)


@pytest.mark.slow
def test_each_kind_of_outage_fails_in_its_own_way():
    assert errors(of_kind("down"), 150.0)[0].keys() == {"server", "auth"}
    assert errors(of_kind("half"), 150.0)[0][None] == pytest.approx(900, rel=0.2)
    hanging, calls = errors(of_kind("hanging"), 150.0)
    assert hanging.keys() == {"timeout"}
    assert {one.seconds for one in calls} == {CALL_LIMIT_S}
    limited, calls = errors(of_kind("limited"), 150.0)
    assert limited.keys() == {"rate_limited"}
    assert all(5 <= one.error.classification.retry_after_s <= 120 for one in calls)


def test_a_scenario_without_outages_makes_tools_without_outages():
    assert not any(tool.schedule.outages for tool in make_tools(Scenario(outage_every_s=0), Random(1)))


def test_no_tool_of_a_dead_server_answers():
    down, hanging = (errors(of_server(kind)[1], 150.0) for kind in SERVER_KINDS)
    assert down[0].keys() == {"transport"}
    assert hanging[0].keys() == {"timeout"}
    assert {one.seconds for one in hanging[1]} == {CALL_LIMIT_S}


def test_a_tool_is_healthy_only_while_its_server_is_and_a_server_only_while_all_its_tools_are():
    server, tool = of_server("down")
    assert [tool.healthy_since(now) for now in (50.0, 150.0, 250.0)] == [0.0, None, 200.0]
    tool.schedule = Schedule([Outage(180.0, 220.0, "hanging")])
    assert [server.healthy_since(now) for now in (150.0, 210.0, 250.0)] == [None, None, 220.0]
    assert tool.healthy_since(210.0) is None


@pytest.mark.slow
def test_most_tools_share_a_server_and_some_have_none_or_their_own(tools):
    of = Counter(None if tool.server is None else len(tool.server.tools) for tool in tools)
    assert of[None] == of[1] == 25
    assert sum(of.values()) == 200
    assert len({tool.partition for tool in tools if tool.server is tools[0].server}) == 1
