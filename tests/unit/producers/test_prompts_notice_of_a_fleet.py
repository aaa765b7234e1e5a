"""The notice and the tool list are the same in all processes of a fleet."""

from __future__ import annotations

import pytest

from switchgear.prompts import NOTHING_CALLABLE
from switchgear.testing import InMemoryFleet
from switchgear_schemas.policy import BreakerPolicy

TOOL = "mcp:weather:get_forecast"
THREE = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=60, fallback=("mcp:backup:get_forecast",))


@pytest.fixture
def fleet():
    return InMemoryFleet(THREE)


def fail(gear, times=3):
    for _ in range(times):
        gear.try_acquire(TOOL).failure(ConnectionError("down"))


def test_all_processes_have_the_same_notice(fleet):
    gears = [fleet.gear(f"process {number}", tool_list="hide", hide_after_s=0) for number in range(5)]
    assert {gear.notice() for gear in gears} == {""}
    fail(gears[0])
    texts = {gear.notice() for gear in gears}
    assert len(texts) == 1
    (text,) = texts
    assert text.startswith(f"These tools are unavailable: {TOOL} (use mcp:backup:get_forecast instead). ")
    assert all(gear.available([TOOL, "other"]) == ["other"] for gear in gears)


@pytest.mark.slow
def test_notice_stays_the_same_through_all_probes_of_an_outage(fleet):
    gear = fleet.gear()
    fail(gear)
    text = gear.notice()
    for second in range(3_600):
        fleet.advance(1)
        if second % 60 == 59:
            gear.try_acquire(TOOL).failure(ConnectionError("still down"))
        assert gear.notice() == text
    fleet.advance(60)
    gear.try_acquire(TOOL).success()
    assert gear.notice() == ""


def test_tool_that_nobody_has_tried_for_ten_minutes_is_not_said_to_be_down_any_more(fleet):
    gear = fleet.gear()
    fail(gear)
    assert TOOL in gear.notice()
    fleet.advance(659)
    assert TOOL in gear.notice()
    fleet.advance(2)
    assert gear.notice() == ""
    gear.try_acquire(TOOL).failure(ConnectionError("still down"))
    fleet.advance(59)
    assert gear.notice() == "", "at most one change a minute"
    fleet.advance(1)
    assert TOOL in gear.notice()


def test_command_of_an_operator_is_in_the_notice_until_it_is_reset(fleet):
    gear = fleet.gear()
    fleet.command(TOOL, "force_open")
    fleet.advance(7_200)
    assert TOOL in gear.notice()
    fleet.command(TOOL, "auto")
    fleet.advance(60)
    assert gear.notice() == ""


@pytest.mark.parametrize(("option", "says"), [("local", ""), ("deny", NOTHING_CALLABLE)])
def test_notice_agrees_with_calls_while_the_fleet_is_out_of_reach(fleet, option, says):
    gear, other = fleet.gear(on_state_unavailable=option, tool_list="hide", hide_after_s=0), fleet.gear("other")
    fleet.command(TOOL, "force_open")
    assert TOOL in gear.notice()
    fleet.cut(gear)
    fleet.advance(60)
    gear.status()  # as the background does once a second
    assert gear.notice() == says
    assert bool(gear.try_acquire(TOOL)) == (says == "")
    assert gear.available([TOOL]) == ([TOOL] if says == "" else [])
    fleet.mend(gear)
    gear.status()
    fleet.advance(60)
    assert gear.notice() == other.notice() != ""
