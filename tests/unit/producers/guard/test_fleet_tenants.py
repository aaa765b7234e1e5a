"""With the scope ``tenant`` a call asks the circuit of its tenant, in the fleet and in the process."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, Permit, Rejection, Switchgear
from switchgear.testing import InMemoryFleet

TOOL = "mcp:shop:search"
SPLIT = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=30, scope="tenant")
NO_LOCAL = BreakerPolicy(mode="disabled")


@pytest.fixture
def fleet():
    return InMemoryFleet({TOOL: SPLIT})


def fails(gear, tenant, times=3):
    for _ in range(times):
        gear.try_acquire(TOOL, tenant=tenant).failure(ConnectionError("away"))


def test_each_tenants_calls_ask_that_tenants_circuit_of_the_fleet(fleet):
    one, other = fleet.gear(local_policies=NO_LOCAL), fleet.gear(local_policies=NO_LOCAL)
    fails(one, "acme")
    assert [event["tenant"] for event in fleet.events(TOOL)] == ["acme"] * 3
    for gear in (one, other):
        refused = gear.try_acquire(TOOL, tenant="acme")
        assert isinstance(refused, Rejection)
        assert (refused.source, refused.scope) == ("fleet", "tenant")
        assert isinstance(gear.try_acquire(TOOL, tenant="globex"), Permit)
        assert isinstance(gear.try_acquire(TOOL), Permit)


def test_a_process_of_one_tenant_asks_the_circuit_of_the_tenant_that_its_gateway_names(fleet):
    gear = fleet.gear(local_policies=NO_LOCAL)
    fails(gear, "acme")
    assert isinstance(gear.try_acquire(TOOL), Permit)
    assert gear._follower is not None
    gear._follower.tenant = "acme"
    assert isinstance(gear.try_acquire(TOOL), Rejection)


def test_a_tenant_probes_its_own_circuit(fleet):
    gear = fleet.gear(local_policies=NO_LOCAL)
    fails(gear, "acme")
    fleet.advance(40)
    probe = gear.try_acquire(TOOL, tenant="acme")
    assert isinstance(probe, Permit)
    assert probe.lease_id is not None
    probe.success()
    assert fleet.circuits()[f"{TOOL}|tenant=acme"].state == "closed"


async def test_the_processes_own_circuits_are_apart_too():
    with Switchgear.local(local_policies=SPLIT) as gear:
        fails(gear, "acme")
        assert isinstance(gear.try_acquire(TOOL, tenant="acme"), Rejection)
        assert isinstance(await gear.atry_acquire(TOOL, tenant="acme"), Rejection)
        assert isinstance(gear.try_acquire(TOOL, tenant="globex"), Permit)
