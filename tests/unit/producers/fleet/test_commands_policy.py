"""``set_policy`` puts the values that it names over the policy file's, for a tool or for all tools of a glob."""

from __future__ import annotations

import json

from switchgear.fleet import Row
from switchgear.fleet.policy_overrides import MAX_GLOBS, laid_over, laid_over_or_base, merged
from switchgear.fleet.rows import PolicyOverrides
from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import COMMANDS, COUNTING, OnePolicy, World
from tests.support.table import table

PARTITIONS = 4


def _set(world: World, name: str, values: dict[str, object], *, seconds: float = 0) -> None:
    """As the command line does: to the owner of a tool; of a glob one copy to each partition."""
    command = Command(tool_name=name, verb="set_policy", actor="ada", policy=BreakerPolicy.model_validate(values))
    value = command.to_bytes()
    glob = any(mark in name for mark in "*?[")
    for partition in range(world.partitions) if glob else [owner_partition(name, world.partitions)]:
        world.append(value, topic=COMMANDS, partition=partition, seconds=seconds, tool_name=name)
    world.run_all()


def _fails(world: World, tool: str, times: int, **fields: object) -> str:
    for _ in range(times):
        world.say("error", tool_name=tool, **fields)
    world.run_all()
    found = world.records(tool)
    return found[-1].state if found else "closed"


def test_values_that_a_command_does_not_name_stay_those_of_the_policy_file():
    world = World()
    _set(world, "search", {"wait_duration_in_open_state_s": 7})
    assert _fails(world, "search", 2) == "closed"
    assert _fails(world, "search", 1) == "open"
    record = world.records()[-1]
    assert record.open_until is not None
    assert (record.open_until - record.changed_at).total_seconds() == 7


def test_a_second_command_adds_to_the_first_and_an_empty_one_takes_both_back():
    world = World()
    _set(world, "search", {"consecutive_failures": 1})
    _set(world, "search", {"fallback": ["backup"]})
    assert json.loads(world.row().policy or b"") == {"consecutive_failures": 1, "fallback": ["backup"]}
    assert world.records()[-1].fallback == ("backup",)
    _set(world, "search", {})
    assert world.row().policy is None
    assert world.records()[-1].fallback == ()
    assert _fails(world, "search", 2) == "closed"


def test_values_that_are_impossible_over_the_files_are_a_dead_letter_and_change_nothing():
    world = World(
        policies=OnePolicy(COUNTING.model_copy(update={"sliding_window_type": "count", "sliding_window_size": 5}))
    )
    _set(world, "search", {"failure_count": 50})
    (letter,) = world.dead
    assert letter.field == "policy"
    assert "more than a window of 5 calls ever holds" in letter.reason
    assert world.row().policy is None


def test_a_glob_holds_for_the_tools_of_every_partition_and_for_those_to_come():
    world = World()
    tools = [f"mcp:{number}" for number in range(8)]
    assert {owner_partition(tool, PARTITIONS) for tool in tools} == set(range(PARTITIONS))
    for tool in tools[:4]:
        world.say(tool_name=tool)
    world.run_all()
    _set(world, "mcp:*", {"consecutive_failures": 1})
    assert {_fails(world, tool, 1) for tool in tools} == {"open"}
    assert _fails(world, "other", 1) == "closed"
    assert world.counted.commands == PARTITIONS


def test_a_globs_policy_survives_a_restart_and_a_crash_before_its_row_is_written():
    for crash in ("before_rows", "during_rows", "after_rows", "after_outputs"):
        world = World(partitions=1)
        world.say(tool_name="mcp:a")
        world.run_all()
        command = Command(
            tool_name="mcp:*", verb="set_policy", actor="ada", policy=BreakerPolicy(consecutive_failures=1)
        )
        world.append(command.to_bytes(), topic=COMMANDS, tool_name="mcp:*")
        world.run(crash=crash)
        world.run_all()
        world.start()
        assert _fails(world, "mcp:a", 1) == "open", crash
        assert _fails(world, "mcp:new", 1) == "open", crash


def test_the_more_specific_glob_wins_and_the_tools_own_values_win_over_both():
    world = World()
    _set(world, "mcp:weather:*", {"consecutive_failures": 2})
    _set(world, "mcp:*", {"consecutive_failures": 1})
    _set(world, "mcp:weather:now", {"consecutive_failures": 3})
    assert [
        _fails(world, "mcp:maps", 1),
        _fails(world, "mcp:weather:later", 1),
        _fails(world, "mcp:weather:now", 2),
    ] == [
        "open",
        "closed",
        "closed",
    ]
    assert _fails(world, "mcp:weather:later", 1) == "open"
    assert _fails(world, "mcp:weather:now", 1) == "open"


def test_an_empty_command_takes_a_globs_values_back():
    world = World()
    _set(world, "mcp:*", {"consecutive_failures": 1})
    _set(world, "mcp:*", {}, seconds=1)
    assert _fails(world, "mcp:a", 2) == "closed"


def test_clearing_a_glob_that_was_not_set_writes_nothing():
    world = World()
    world.say(tool_name="mcp:a")
    world.run_all()
    before = dict(world.rows)
    _set(world, "mcp:*", {})
    assert (world.rows, world.circuits) == (before, [])
    assert world.counted.commands == PARTITIONS


def test_a_globs_mode_and_fallback_are_published_for_every_existing_circuit():
    world = World()
    for tool in ("mcp:a", "mcp:b", "other"):
        world.say(tool_name=tool)
    world.run_all()
    _set(world, "mcp:*", {"mode": "disabled", "fallback": ["backup"]})
    for tool in ("mcp:a", "mcp:b"):
        (record,) = world.records(tool)
        assert (record.state, record.mode, record.fallback) == ("disabled", "disabled", ("backup",))
        assert record.cause is not None
        assert record.cause.actor == "ada"
    assert world.records("other") == []
    _set(world, "mcp:*", {}, seconds=1)
    assert [record.state for record in world.records("mcp:a")] == ["disabled", "closed"]


def test_the_same_glob_command_twice_is_applied_once_and_one_too_many_is_refused():
    world = World(partitions=1)
    command = Command(tool_name="a*", verb="set_policy", actor="ada", policy=BreakerPolicy(consecutive_failures=1))
    for _ in range(2):
        world.append(command.to_bytes(), topic=COMMANDS, tool_name="a*")
    world.run_all()
    assert (world.counted.commands, world.counted.duplicates) == (1, 1)
    full = PolicyOverrides(partition=0, tables={f"{number}*": b"{}" for number in range(MAX_GLOBS)}, applied=9)
    world.rows[full.key] = full.encode()
    world.start()
    _set(world, "b*", {"consecutive_failures": 1})
    assert "the policies set by glob would be more than 200" in world.dead[-1].reason


def test_an_impossible_glob_is_refused_whether_its_tools_are_there_or_not():
    world = World(
        partitions=1,
        policies=OnePolicy(COUNTING.model_copy(update={"sliding_window_type": "count", "sliding_window_size": 5})),
    )
    for known in (False, True):
        if known:
            world.say(tool_name="mcp:a")
            world.run_all()
        command = Command(tool_name="mcp:*", verb="set_policy", actor="ada", policy=BreakerPolicy(failure_count=50))
        world.append(command.to_bytes(), topic=COMMANDS, tool_name="mcp:*")
        world.run_all()
    assert [letter.field for letter in world.dead] == ["policy", "policy"]
    assert _fails(world, "mcp:a", 1) == "closed"


def test_two_globs_that_are_impossible_for_a_tool_to_come_are_refused_in_every_partition():
    world = World(partitions=2)
    _set(world, "ab*c", {"sliding_window_type": "count", "sliding_window_size": 60, "failure_count": 50})
    _set(world, "a*c", {"sliding_window_size": 20})  # ab*c is more specific: its own size holds
    assert world.dead == []
    _set(world, "abc*", {"sliding_window_size": 20})
    assert ["more than a window of 20 calls" in letter.reason for letter in world.dead] == [True, True]


def test_the_row_of_globs_is_not_read_as_a_circuit():
    world = World()
    _set(world, "mcp:*", {"consecutive_failures": 1})
    assert world.circuits == []
    policy_keys = [key for key in world.rows if key.startswith(b"\xff")]
    assert len(policy_keys) == PARTITIONS
    for key in policy_keys:
        assert PolicyOverrides.decode(world.rows[key]).key == key
    world.start()
    world.say(tool_name="x")
    world.run_all()
    assert Row.decode(world.rows[b"x"]).total_calls == 1


def test_values_that_a_changed_policy_file_made_impossible_give_way_and_are_logged(caplog):
    base = BreakerPolicy(sliding_window_type="count", sliding_window_size=5)
    layer = merged(None, {"failure_count": 50})
    assert layer is not None
    assert laid_over_or_base(base, (layer,)) == base
    assert "those of the policy file hold" in caplog.text
    assert laid_over(BreakerPolicy(), (layer,)).failure_count == 50


@table(
    ("before", "values", "after"),
    [
        (None, {}, None),
        (b'{"a": 1}', {}, None),
        (b'{"a": 1}', {"b": None}, {"a": 1, "b": None}),
        (b'{"cusum": {"x": 1}}', {"cusum": {"y": 2}}, {"cusum": {"x": 1, "y": 2}}),
        (b'{"cusum": null}', {"cusum": {"y": 2}}, {"cusum": {"y": 2}}),
    ],
)
def test_newer_values_go_over_older_ones(before, values, after):
    found = merged(before, values)
    assert (None if found is None else json.loads(found)) == after
