"""The list of tools and the texts about them are those of the running session."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, Switchgear
from switchgear.testing import FakeClock, InMemoryFleet

TOOLS = ["search", {"name": "maps"}, {"type": "function", "function": {"name": "mail"}}]


@pytest.fixture
def clock():
    return FakeClock()


def made(clock=None, **options):
    return Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1),
        fallbacks={"search": ["maps"], "maps": "mail"},
        clock=clock,
        **options,
    )


@pytest.fixture
def gear(clock):
    return made(clock)


@pytest.fixture
def hiding():
    return made(tool_list="hide", hide_after_s=0)


def fail(gear, tool):
    gear.try_acquire(tool).failure(ConnectionError("down"))


def test_open_tool_is_in_the_notice_and_stays_in_the_list(gear, clock):
    assert (gear.available(TOOLS), gear.notice()) == (TOOLS, "")
    fail(gear, "search")
    sentence = gear.notice()
    assert sentence == (
        "These tools are unavailable: search (use maps instead). The answer to a call of one says when to try it again."
    )
    assert gear.available(TOOLS) == TOOLS
    fail(gear, "maps")
    assert gear.notice() == sentence, "at most one change a minute"
    clock.advance(60)
    assert gear.notice().startswith("These tools are unavailable: maps (use mail instead), search (use mail instead). ")
    assert gear.available(TOOLS) == TOOLS
    assert gear.status().tool_list_changes == 0


def test_open_tool_is_not_in_the_list_that_hides_it(hiding):
    assert hiding.available(TOOLS) == TOOLS
    fail(hiding, "search")
    assert hiding.available(TOOLS) == TOOLS[1:]
    assert hiding.status().tool_list_changes == 1


def test_session_has_its_own_list_and_notice(hiding):
    fail(hiding, "search")
    with hiding.session("s-1"):
        assert (hiding.available(TOOLS), hiding.notice()) == (TOOLS, "")
        fail(hiding, "maps")
        assert hiding.available(TOOLS) == [TOOLS[0], TOOLS[2]]
    with hiding.session("s-2"):
        fail(hiding, "maps")
        assert hiding.notice().startswith("These tools are unavailable: maps (")
    assert hiding.available(TOOLS) == TOOLS[1:]
    assert hiding.notice().startswith("These tools are unavailable: search (")


def test_session_that_begins_over_its_limit_is_offered_no_tools_and_every_other_keeps_its_list():
    gear = made(tool_list="new_sessions")
    with gear.session(max_calls=1):
        assert gear.available(TOOLS) == TOOLS
        gear.try_acquire("mail").success()
        assert gear.available(TOOLS) == TOOLS
    with gear.session(max_calls=1):
        gear.try_acquire("mail").success()
        assert gear.available(TOOLS) == []
    assert gear.available(TOOLS) == TOOLS


def test_circuit_opened_by_the_fleet_is_in_every_session():
    fleet = InMemoryFleet()
    gear = fleet.gear("planner", tool_list="new_sessions")
    fleet.open_circuit("search", for_s=60)
    with gear.session():
        assert gear.available(["search", "maps"]) == ["maps"]
        assert gear.notice().startswith("These tools are unavailable: search. ")


def test_outage_and_its_end_are_told_once_in_each_conversation(gear, clock):
    fail(gear, "search")
    told = [gear.outage_message(session) for session in ("a", "a", "b", None)]
    assert told[0] == (
        "[tool status] These tools are unavailable: search (use maps instead)."
        " The answer to a call of one says when to try it again."
    )
    assert told == [told[0], "", told[0], told[0]]
    clock.advance(61)
    gear.try_acquire("search").success()
    assert [gear.outage_message("a"), gear.outage_message("a")] == [
        "[tool status] These tools may be called again: search.",
        "",
    ]


def test_message_is_about_the_agents_tools_and_goes_on_about_the_others_of_the_conversation(gear, clock):
    fail(gear, "search")
    assert gear.outage_message("s", tools=["mail"]) == ""
    assert "unavailable: search. " in gear.outage_message("s", tools=["search"])
    clock.advance(61)
    assert gear.outage_message("s", tools=["mail"]) == ""
    assert gear.outage_message("s", tools=["search", "mail"]) == ""


def test_forgotten_conversation_is_told_again(gear):
    fail(gear, "search")
    first = gear.outage_message("s")
    assert gear.outage_message("s") == ""
    gear.forget_told("s")
    assert gear.outage_message("s") == first != ""


def test_session_of_the_client_is_a_conversation_of_its_own(gear):
    with gear.session("s-1", max_calls=1):
        fail(gear, "search")
        assert (
            gear.outage_message()
            == "[tool status] No tool can be called any more in this session. Finish with what you have."
        )
        assert gear.outage_message() == ""
    assert gear.outage_message() == ""
