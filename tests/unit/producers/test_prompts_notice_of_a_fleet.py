"""The notice and the tool list agree in all processes of a fleet."""

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
    gears = [fleet.gear(f"process {number}") for number in range(5)]
    assert {gear.notice() for gear in gears} == {""}
    fail(gears[0])
    texts = {gear.notice() for gear in gears}
    assert len(texts) == 1
    (text,) = texts
    assert text.startswith(f"These tools are unavailable, do not call them: {TOOL} (not before ")
    assert "use mcp:backup:get_forecast instead" in text
    assert all(gear.available([TOOL, "other"]) == ["other"] for gear in gears)


def test_notice_stays_until_a_probe_may_go(fleet):
    gear = fleet.gear()
    fail(gear)
    text = gear.notice()
    for _ in range(59):
        fleet.advance(1)
        assert gear.notice() == text
    fleet.advance(1)
    assert gear.notice() == ""
    assert gear.available([TOOL]) == [TOOL]
    gear.try_acquire(TOOL).failure(ConnectionError("still down"))
    assert gear.notice() not in {"", text}


def test_command_of_an_operator_is_in_the_notice_until_it_is_reset(fleet):
    gear = fleet.gear()
    fleet.command(TOOL, "force_open")
    assert f"{TOOL} (until further notice" in gear.notice()
    fleet.command(TOOL, "auto")
    assert gear.notice() == ""


@pytest.mark.parametrize(("option", "says"), [("local", ""), ("deny", NOTHING_CALLABLE)])
def test_notice_agrees_with_calls_while_the_fleet_is_out_of_reach(fleet, option, says):
    gear, other = fleet.gear(on_state_unavailable=option), fleet.gear("other")
    fleet.command(TOOL, "force_open")
    assert TOOL in gear.notice()
    fleet.cut(gear)
    fleet.advance(20)
    gear.status()  # as the background does once a second
    assert gear.notice() == says
    assert bool(gear.try_acquire(TOOL)) == (says == "")
    assert gear.available([TOOL]) == ([TOOL] if says == "" else [])
    fleet.mend(gear)
    gear.status()
    assert gear.notice() == other.notice() != ""
