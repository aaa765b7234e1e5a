"""With the scope ``tenant`` each tenant has a circuit of its own."""

from __future__ import annotations

import pytest

from switchgear_schemas import Command
from tests.support.fleet import COMMANDS, COUNTING, OnePolicy, World

OF_ACME, OF_GLOBEX = "search|tenant=acme", "search|tenant=globex"


@pytest.fixture
def world():
    return World(policies=OnePolicy(COUNTING.model_copy(update={"scope": "tenant"})))


def say(world, status="success", tenant="acme", times=1, **fields):
    for _ in range(times):
        world.say(status, tenant=tenant, **fields)
    world.run_all()


def test_failures_of_one_tenant_open_its_circuit_and_nobody_elses(world):
    say(world, tenant="globex")
    say(world, "error", times=20)
    (record,) = world.records(OF_ACME)
    assert (record.state, record.scope, record.tool_name) == ("open", "tenant", "search")
    assert world.records(OF_GLOBEX) == world.records("search") == []
    assert world.row(OF_GLOBEX).total_calls == 1
    assert world.row("search").total_calls == 0


def test_events_without_a_tenant_count_in_the_tools_own_circuit(world):
    say(world, "error", tenant=None, times=3)
    assert [each.state for each in world.records("search")] == ["open"]
    assert world.records(OF_ACME) == []


def test_a_probe_of_a_tenants_circuit_is_leased_to_that_tenants_process(world):
    say(world, "error", times=3)
    for tenant in ("globex", "acme"):
        world.say("rejected", tenant=tenant, emitter_id=f"{tenant}@host", probe_requested=True, seconds=20)
    world.run_all()
    record = world.records(OF_ACME)[-1]
    assert (record.state, [each.emitter_id for each in record.leases]) == ("half_open", ["acme@host"])
    assert [(each.state, each.leases) for each in world.records(OF_GLOBEX)] == [("closed", ())]


def test_an_operator_commands_the_circuit_of_one_tenant(world):
    say(world)
    command = Command(tool_name="search", circuit_id=OF_ACME, verb="force_open", actor="ops", reason="pays late")
    world.append(command.to_bytes(), topic=COMMANDS)
    world.run_all()
    assert [each.state for each in world.records(OF_ACME)] == ["forced_open"]
    assert world.records("search") == []
