"""Operators reach the circuit of a family by its id."""

from __future__ import annotations

import pytest

from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.partitioner import partition_of
from tests.support.fleet import COMMANDS, OnePolicy, World, at

SERVER, FAMILY, TOOL = "mcp:github", "mcp:github|family", "mcp:github:search"


@pytest.fixture
def world() -> World:
    return World(policies=OnePolicy(family_policy=BreakerPolicy(consecutive_failures=3, minimum_tools=2)))


def command(world: World, verb: str, *, name: str = SERVER, seconds: float = 0, **fields) -> None:
    made = Command.from_dict(
        {"tool_name": name, "circuit_id": f"{name}|family", "verb": verb, "actor": "ada", **fields}
    )
    world.append(made.to_bytes(), topic=COMMANDS, partition=partition_of(name, world.partitions), seconds=seconds)
    world.run_all()


def test_forces_a_family_open_and_no_circuit_of_its_tools(world):
    world.say(tool_name=TOOL)
    command(world, "force_open", reason="maintenance")
    (record,) = world.records(FAMILY)
    assert (record.state, record.scope, record.tool_name, record.cause.actor) == (
        "forced_open", "family", SERVER, "ada",
    )  # fmt: skip
    assert world.records(TOOL) == []
    assert world.row(FAMILY).applied == 2


def test_a_command_is_applied_once(world):
    made = {"command_id": "0190c7f0-0000-7000-8000-000000000001"}
    command(world, "force_open", **made)
    command(world, "force_open", **made)
    assert len(world.records(FAMILY)) == 1
    assert world.row(FAMILY).commands == (made["command_id"],)


def test_taking_back_what_was_never_given_makes_no_circuit(world):
    command(world, "close")
    assert world.rows == {}


def test_a_command_for_a_time_ends_with_the_next_call_of_a_tool_after_it(world):
    command(world, "disable", until=at(100))
    world.say(tool_name=TOOL, seconds=50)
    world.run_all()
    assert world.records(FAMILY)[-1].state == "disabled"
    world.say(tool_name=TOOL, seconds=101)
    world.run_all()
    assert world.records(FAMILY)[-1].state == "closed"


def test_sets_the_policy_of_a_family_which_its_row_keeps(world):
    command(world, "set_policy", policy={"minimum_tools": 1})
    for _ in range(3):
        world.say("error", tool_name=TOOL, error_class="transport")
    world.fold.forget()
    world.run_all()
    assert world.records(FAMILY)[-1].state == "open"
    command(world, "set_policy", policy={})
    assert world.row(FAMILY).policy is None


@pytest.mark.parametrize("policy", [{"fallback": ["other"]}, {"scope": "user"}, {"target": "url.host"}])
def test_refuses_a_policy_that_no_family_can_have(world, policy):
    command(world, "set_policy", policy=policy)
    (letter,) = world.dead
    assert letter.field == "policy"


def test_refuses_a_command_to_a_family_that_can_have_no_tools(world):
    command(world, "force_open", name="mcp")
    (letter,) = world.dead
    assert "family_pattern" in letter.reason


def test_a_glob_of_tools_does_not_change_families(world):
    world.say(tool_name=TOOL)
    world.run_all()
    made = Command.from_dict(
        {"tool_name": "mcp:*", "verb": "set_policy", "actor": "ada", "policy": {"mode": "disabled"}}
    )
    for partition in range(world.partitions):
        world.append(made.to_bytes(), topic=COMMANDS, partition=partition)
    world.run_all()
    assert world.records(TOOL)[-1].state == "disabled"
    assert world.records(FAMILY) == []
