"""is_open says whether a call would be refused now, and takes nothing."""

from __future__ import annotations

import asyncio

import pytest

from switchgear import BreakerPolicy
from switchgear.testing import InMemoryFleet
from switchgear.tool_list import REFUSES
from tests.support.clock import Clock
from tests.support.local_client import local_client

WAIT_S, STAY_S = 60.0, 30.0
DAY_S = 86_400.0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def client(clock):
    def made(**rules):
        policy = BreakerPolicy(
            consecutive_failures=1,
            wait_duration_in_open_state_s=WAIT_S,
            max_wait_duration_in_half_open_state_s=STAY_S,
            **rules,
        )
        return local_client(clock, local_policies=policy)

    return made


def break_it(gear, tool):
    gear.try_acquire(tool).failure(ConnectionError("down"))
    assert gear.is_open(tool)


def test_is_open_while_a_probe_runs_and_asking_takes_nothing(client, clock):
    gear = client()
    break_it(gear, "t")
    clock.now += WAIT_S
    assert not any(gear.is_open("t") for _ in range(10))
    assert gear.status().local == {"t": "open"}, "no call was made"
    probe = gear.try_acquire("t")
    assert gear.is_open("t")
    assert gear._runtime.condition("t", in_session=False) == REFUSES
    probe.release()
    assert not any(gear.is_open("t") for _ in range(10))
    assert gear.try_acquire("t").probe


def test_a_probe_that_is_never_reported_ends_in_a_wait_and_then_in_another_probe(client, clock):
    gear = client()
    break_it(gear, "t")
    clock.now += WAIT_S
    _lost = gear.try_acquire("t")
    clock.now += STAY_S
    assert gear.is_open("t")
    assert "unavailable: t." in gear.notice()
    clock.now += WAIT_S - 1
    assert gear.is_open("t")
    clock.now += 1
    assert not gear.is_open("t")
    assert gear.status().local == {"t": "open"}, "the half-open stay is over"
    assert "unavailable: t." in gear.notice()
    assert gear.try_acquire("t").probe


def test_between_two_probes_that_are_both_needed_a_call_may_go(client, clock):
    gear = client(permitted_number_of_calls_in_half_open_state=2, success_threshold_to_close=2)
    break_it(gear, "t")
    clock.now += WAIT_S
    gear.try_acquire("t").success()
    assert gear.status().local == {"t": "half_open"}
    assert not gear.is_open("t")
    gear.try_acquire("t").success()
    assert gear.status().local == {}


def test_a_fallback_whose_probe_came_back_without_a_verdict_is_tried_again(client, clock):
    gear = client()
    gear.guard("backup")(lambda city: f"backup: {city}")

    @gear.guard("primary", fallback="backup")
    def primary(_city):
        raise ConnectionError("down")

    break_it(gear, "backup")
    clock.now += WAIT_S
    gear.try_acquire("backup").release()
    break_it(gear, "primary")
    assert primary("Oslo") == "backup: Oslo"
    assert gear.status().local == {"primary": "open"}


def test_a_refusal_advises_a_fallback_that_may_be_probed(client, clock):
    gear = client()
    gear.map_fallbacks({"primary": ["backup"]})
    break_it(gear, "backup")
    clock.now += WAIT_S
    gear.try_acquire("backup").release()
    break_it(gear, "primary")
    assert gear.try_acquire("primary").fallback == "backup"
    probe = gear.try_acquire("backup")
    assert gear.try_acquire("primary").fallback is None
    probe.release()


async def test_a_cancelled_probe_of_the_fleet_does_not_block_recovery():
    fleet = InMemoryFleet()
    gear, other = fleet.gear("one"), fleet.gear("other")
    while gear.try_acquire("t"):
        gear.try_acquire("t").failure(ConnectionError("down"))
    assert gear.is_open("t")
    fleet.advance(DAY_S)

    async def hang():
        await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gear.acall("t", hang), 0.001)
    assert not gear.is_open("t")
    fleet.advance(DAY_S)
    other.call("t", str)
    assert fleet.state("t") == "closed"
    assert not gear.is_open("t")
    fleet.advance(DAY_S)
    assert gear.available(["t"]) == ["t"]


def test_in_a_fleet_a_tool_that_another_process_probes_is_open_until_the_lease_is_over():
    policy = BreakerPolicy(
        consecutive_failures=1,
        wait_duration_in_open_state_s=WAIT_S,
        max_wait_duration_in_half_open_state_s=STAY_S,
        permitted_number_of_calls_in_half_open_state=2,
    )
    fleet = InMemoryFleet(policy)
    one, other, third = fleet.gear("one"), fleet.gear("other"), fleet.gear("third")
    one.try_acquire("t").failure(ConnectionError("down"))
    fleet.advance(WAIT_S)
    _probe = one.try_acquire("t")
    assert not third.is_open("t"), "another may go beside it"
    _second = other.try_acquire("t")
    assert third.is_open("t")
    assert not third.try_acquire("t")
    fleet.stop_worker()
    fleet.advance(STAY_S)
    assert not third.is_open("t"), "both were lost"
