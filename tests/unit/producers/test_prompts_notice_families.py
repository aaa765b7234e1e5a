"""A dead server is listed once in the notice, and none of its tools is offered."""

from __future__ import annotations

import pytest

from switchgear.prompts import Unavailable, notice
from switchgear.testing import InMemoryFleet
from tests.support.tool_server import SERVER, ToolServer, call_all


def dead(**options):
    """Return the fleet, a client of it, and the tools of a server that the fleet has opened."""
    fleet = InMemoryFleet()
    gear, server = fleet.gear(**options), ToolServer()
    server.up = False
    for _ in range(3):
        call_all(server.guarded(fleet.gear("other")))
    for number in range(40):
        fleet.report(server.tools[number], "timeout", process=f"p{number % 3}")
    assert fleet.state(f"{SERVER}|family") == "open"
    return fleet, gear, server


def test_the_notice_lists_a_dead_server_once_and_in_front_of_tools():
    tools = [Unavailable("a:tool"), Unavailable("mcp:github", family=True)]
    assert notice(tools).startswith("These tools are unavailable: all tools of mcp:github, a:tool. ")


def test_the_names_of_servers_are_not_renamed():
    assert "all tools of mcp:a." in notice([Unavailable("mcp:a", family=True)], name_of=str.upper)


@pytest.mark.slow
def test_all_tools_of_a_dead_server_are_left_out_of_the_list_and_named_once():
    _, gear, server = dead(tool_list="hide", hide_after_s=0)
    assert gear.available([*server.tools, "mcp:other:tool"]) == ["mcp:other:tool"]
    assert gear.notice().startswith("These tools are unavailable: all tools of mcp:github. ")


@pytest.mark.slow
def test_open_tools_of_a_dead_server_are_not_named_beside_it():
    fleet, gear, server = dead()
    fleet.open_circuit(server.tools[1], for_s=30)
    fleet.open_circuit(server.tools[2])
    assert gear.notice().count("mcp:github") == 1


@pytest.mark.slow
def test_after_the_wait_the_tools_of_the_server_are_offered_to_the_process_that_may_probe_it():
    fleet, gear, server = dead(tool_list="hide", hide_after_s=0)
    other = fleet.gear("another", tool_list="hide", hide_after_s=0)
    fleet.open_circuit(server.tools[1], for_s=300)
    for each in (gear, other):
        assert each.available(server.tools) == []
    fleet.clock.advance(60)
    gear.available(server.tools)  # asks for the probe
    assert gear.available(server.tools) == server.tools
    assert other.available(server.tools) == []


@pytest.mark.slow
def test_a_tool_of_a_dead_server_is_not_recommended():
    fleet, gear, server = dead()
    gear.map_fallbacks({"mcp:x:search": [server.tools[0], "mcp:y:search"]})
    fleet.open_circuit("mcp:x:search")
    assert "(use mcp:y:search instead)" in gear.notice()


def test_a_server_that_only_this_process_cannot_reach_is_named_too():
    gear, server = InMemoryFleet().gear(tool_list="hide", hide_after_s=0), ToolServer()
    server.up = False
    call_all(server.guarded(gear))
    assert gear.notice().startswith("These tools are unavailable: all tools of mcp:github. ")
    assert gear.available(server.tools) == []
