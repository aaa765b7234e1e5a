from __future__ import annotations

from datetime import UTC, datetime

import pytest

from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import COMMANDS, COUNTING, START_MS, OnePolicy, World
from tests.support.table import table


def _send(world: World, verb: str, *, seconds: float = 0, partition: int | None = None, **fields: object) -> Command:
    command = Command.from_dict({"tool_name": "search", "verb": verb, "actor": "ada", "reason": "drill", **fields})
    world.append(command.to_bytes(), topic=COMMANDS, seconds=seconds, partition=partition)
    return command


def test_force_open_holds_until_its_time_and_names_actor_and_reason():
    world = World()
    until = datetime.fromtimestamp(START_MS / 1000 + 600, UTC)
    _send(world, "force_open", until=until)
    world.run_all()
    (record,) = world.records()
    assert (record.state, record.open_until) == ("open", until)
    assert record.cause is not None
    assert (record.cause.actor, record.cause.reason) == ("ada", "drill")


def test_close_ends_an_open_circuit():
    world = World()
    for _ in range(3):
        world.say("error")
    world.run_all()
    _send(world, "close")
    world.run_all()
    assert [record.state for record in world.records()] == ["open", "closed"]


@pytest.mark.parametrize("verb", ["disable", "metrics_only", "force_open"])
def test_auto_gives_the_circuit_back_to_its_policy(verb):
    world = World()
    _send(world, verb)
    _send(world, "auto")
    world.run_all()
    assert world.records()[-1].state == "closed"


def test_a_command_that_is_sent_twice_is_applied_once():
    world = World()
    command = _send(world, "force_open")
    _send(world, "close")
    world.append(command.to_bytes(), topic=COMMANDS)
    world.run_all()
    assert [record.state for record in world.records()] == ["forced_open", "closed"]
    assert world.counted.commands == 2


def test_a_command_is_not_applied_again_by_a_replay():
    world = World()
    _send(world, "force_open")
    world.run(crash="after_outputs")
    world.run(crash="after_rows")
    world.run_all()
    assert len(world.records()) == 1
    assert world.row().applied == 1


def test_set_policy_holds_from_then_on_and_after_a_restart():
    world = World()
    _send(world, "set_policy", policy=BreakerPolicy(consecutive_failures=1, fallback=("backup",)))
    world.run_all()
    assert world.records()[-1].fallback == ("backup",)
    world.start()
    world.say("error")
    world.run_all()
    assert world.records()[-1].state == "open"


def test_a_command_reaches_every_session_of_its_tool_and_those_to_come():
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"scope": "session"})))
    world.say(session_id="s1")
    world.say(session_id="s1", tool_name="search-images")
    world.run_all()
    _send(world, "force_open")
    world.run_all()
    world.say("rejected", session_id="s2")
    world.run_all()
    assert world.records("search|session=s1")[-1].state == "forced_open"
    assert world.records("search|session=s2")[-1].state == "forced_open"
    assert world.records("search-images|session=s1") == []


def test_a_command_in_the_wrong_partition_reaches_its_owner_once():
    world = World()
    owner = owner_partition("search", 4)
    _send(world, "force_open", partition=(owner + 1) % 4)
    world.run(crash="after_outputs")
    world.run_all()
    assert [record.state for record in world.records()] == ["forced_open"]


@table(
    ("value", "field"),
    [
        (b"", ""),
        (b"{", ""),
        (b'{"tool_name":"search","verb":"explode","actor":"a"}', "verb"),
        (b'{"tool_name":"search","verb":"close"}', "actor"),
        (b"x" * 70_000, ""),
    ],
)
def test_a_malformed_command_is_a_dead_letter(value, field):
    world = World()
    world.append(value, topic=COMMANDS)
    world.run_all()
    assert world.dead[0].field == field
    assert world.rows == {}


def test_commands_remembered_are_bounded():
    world = World()
    for number in range(100):
        _send(world, "force_open" if number % 2 else "close", seconds=number)
    world.run_all()
    assert len(world.row().commands) == 64


TAKING_BACK = [("close", {}), ("reset", {}), ("auto", {}), ("set_policy", {"policy": BreakerPolicy()})]


@pytest.mark.parametrize(("verb", "fields"), TAKING_BACK, ids=[verb for verb, _ in TAKING_BACK])
def test_taking_back_what_was_never_commanded_makes_no_circuit_of_an_unknown_tool(verb, fields):
    world = World()
    _send(world, verb, **fields)
    world.run_all()
    assert (world.rows, world.circuits, world.dead) == ({}, [], [])
    assert world.counted.commands == 1
    for _ in range(3):
        world.say("error")
    world.run_all()
    assert [record.state for record in world.records()] == ["open"]


@table(("verb", "fields"), TAKING_BACK, ids=[verb for verb, _ in TAKING_BACK])
@table("crash", ["before_rows", "after_rows", "after_outputs"])
def test_an_unknown_tool_stays_unknown_when_the_command_is_read_again_after_a_crash(verb, fields, crash):
    world = World()
    _send(world, verb, **fields)
    world.run(crash=crash)
    world.run_all()
    assert (world.rows, world.circuits) == ({}, [])


@pytest.mark.parametrize("verb", ["close", "reset", "auto"])
def test_closing_an_unknown_session_makes_no_circuit_of_it(verb):
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"scope": "session"})))
    world.say(session_id="s1")
    world.run_all()
    _send(world, verb, circuit_id="search|session=nobody")
    world.run_all()
    assert set(world.rows) == {b"search", b"search|session=s1"}
    assert world.circuits == []


def test_clearing_a_policy_that_was_not_set_publishes_nothing_for_a_known_tool():
    world = World()
    world.say()
    world.run_all()
    _send(world, "set_policy", policy=BreakerPolicy())
    world.run_all()
    assert world.circuits == []
    assert world.row().command_fences


def test_setting_the_same_policy_again_publishes_nothing():
    world = World()
    for _ in range(2):
        _send(world, "set_policy", policy=BreakerPolicy(consecutive_failures=1))
    world.run_all()
    assert len(world.records()) == 1


def test_a_command_to_a_tool_named_like_a_users_circuit_moves_that_tool_alone():
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"scope": "user"})))
    world.say(user_id="ana")
    world.say(tool_name="search|user=ana")
    world.run_all()
    _send(world, "force_open", tool_name="search|user=ana")
    world.run_all()
    assert world.records("search%7Cuser=ana")[-1].state == "forced_open"
    assert world.records("search|user=ana") == []
    _send(world, "close", tool_name="search|user=ana")
    _send(world, "force_open", circuit_id="search|user=ana")
    world.run_all()
    assert world.records("search%7Cuser=ana")[-1].state == "closed"
    assert world.records("search|user=ana")[-1].state == "forced_open"


def test_a_policy_for_a_glob_reaches_a_tool_whose_name_has_a_mark():
    world = World()
    world.say(tool_name="search|user=ana")
    world.run_all()
    owner = owner_partition("search|user=ana", 4)
    _send(world, "set_policy", tool_name="search*", policy=BreakerPolicy(mode="forced_open"), partition=owner)
    world.run_all()
    assert world.records("search%7Cuser=ana")[-1].mode == "forced_open"
