"""A fleet in memory has circuits of servers, too."""

from __future__ import annotations

from switchgear.policies import PolicySet
from switchgear.testing import InMemoryFleet
from tests.support.tool_server import SERVER, ToolServer, call_all


def test_opens_and_closes_the_circuit_of_a_server_as_an_operator_does():
    fleet, server = InMemoryFleet(), ToolServer(tools=3)
    tools = server.guarded(fleet.gear())
    fleet.open_circuit(SERVER, family=True, for_s=30)
    assert fleet.circuits()[f"{SERVER}|family"].scope == "family"
    assert call_all(tools) == {f"refused by {SERVER}": 3}
    fleet.close_circuit(SERVER, family=True)
    assert call_all(tools) == {"found": 3}


def test_takes_the_policies_of_servers_from_a_policy_set():
    fleet = InMemoryFleet(PolicySet(family={SERVER: {"failure_count": 2}}))
    for tool in ("a", "b"):
        fleet.report(f"{SERVER}:{tool}", "timeout", process=tool)
    assert fleet.state(f"{SERVER}|family") == "open"


def test_all_clients_have_the_fleets_pattern():
    fleet, server = InMemoryFleet(family_pattern="db:*"), ToolServer("db", tools=3)
    tools = server.guarded(fleet.gear())
    fleet.open_circuit("db", family=True)
    assert call_all(tools) == {"refused by db": 3}
    fleet.close_circuit("db", family=True)
    assert call_all(tools) == {"found": 3}
    assert {event["family_generation"] for event in fleet.events() if event["status"] == "success"} == {2}
    assert "family_generation" not in call_and_read(fleet, "mcp:github:search")


def call_and_read(fleet, tool):
    fleet.gear().call(tool, lambda: "found")
    return fleet.events(tool)[-1]


def test_an_empty_pattern_turns_families_off():
    fleet, server = InMemoryFleet(family_pattern=""), ToolServer()
    server.up = False
    assert call_all(server.guarded(fleet.gear())) == {"failed": 40}
    assert fleet.circuits() == {}
