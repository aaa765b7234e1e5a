"""The list of tools and the notice are those of the running session."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.testing import InMemoryFleet

TOOLS = ["search", {"name": "maps"}, {"type": "function", "function": {"name": "mail"}}]


@pytest.fixture
def gear():
    return Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1), fallbacks={"search": ["maps"], "maps": "mail"}
    )


def fail(gear, tool):
    gear.try_acquire(tool).failure(ConnectionError("down"))


def test_open_tool_is_in_the_notice_and_not_in_the_list(gear):
    assert gear.available(TOOLS) == TOOLS
    assert gear.notice() == ""
    fail(gear, "search")
    assert gear.available(TOOLS) == TOOLS[1:]
    sentence = gear.notice()
    assert sentence.startswith("These tools are unavailable, do not call them: search (not before ")
    assert sentence.endswith("; use maps instead).")
    assert gear.notice() == sentence, "it stays the same to the byte"
    fail(gear, "maps")
    assert "search (not before" in gear.notice()
    assert gear.notice().count("use mail instead") == 2


def test_session_has_its_own_list_and_notice(gear):
    fail(gear, "search")
    with gear.session("s-1"):
        assert (gear.available(TOOLS), gear.notice()) == (TOOLS, "")
        fail(gear, "maps")
        assert gear.available(TOOLS) == [TOOLS[0], TOOLS[2]]
        assert "maps" in gear.notice()
        assert "search" not in gear.notice()
    assert gear.available(TOOLS) == TOOLS[1:]
    assert "maps" not in gear.notice().split(";")[0]


def test_session_over_its_limit_has_no_tools(gear):
    with gear.session(max_calls=1):
        gear.try_acquire("mail").success()
        assert gear.available(TOOLS) == []
    assert gear.available(TOOLS) == TOOLS


def test_circuit_opened_by_the_fleet_is_in_every_session():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner")
    fleet.open_circuit("search", for_s=60)
    with gear.session():
        assert gear.available(["search", "maps"]) == ["maps"]
        assert "search (not before" in gear.notice()
