"""The fleet keeps a circuit for each target of a tool whose policy says so, and tells all processes."""

from __future__ import annotations

import pytest

from switchgear.breaker.values import MAX_CIRCUITS_PER_TOOL
from switchgear.fleet.registry import Limits
from switchgear_schemas import BreakerPolicy, Command
from switchgear_schemas.enums import TARGET_ERROR
from tests.support.fleet import COMMANDS, COUNTING, OnePolicy, World

FETCH = "mcp:fetch:fetch"
DEAD = f"{FETCH}@dead.org"
SPLIT = COUNTING.model_copy(update={"target": "url.host"})
OF_FAMILY = BreakerPolicy(consecutive_failures=2, counted_error_classes=frozenset({"transport", "timeout"}))


@pytest.fixture
def world():
    return World(policies=OnePolicy(SPLIT, OF_FAMILY))


def say(world, status="success", target="dead.org", times=1, **fields):
    for _ in range(times):
        world.say(status, tool_name=FETCH, target=target, **fields)
    world.run_all()


def test_one_dead_target_opens_and_the_tool_stays(world):
    say(world, "error", times=3, error_class="server")
    say(world, target="good.org")
    (record,) = world.records(DEAD)
    assert (record.state, record.scope, record.tool_name, record.target) == ("open", "target", FETCH, "url.host")
    assert [each.state for each in world.records(FETCH)] == ["closed"]
    assert world.row(f"{FETCH}@good.org").total_calls == 1
    assert world.row(FETCH).total_calls == 0


def test_the_first_event_of_a_tool_announces_its_target_once(world):
    say(world, target=None)
    say(world, target=None, times=3)
    (record,) = world.records(FETCH)
    assert (record.state, record.target, record.previous_state) == ("closed", "url.host", None)


def test_a_tool_without_a_target_announces_nothing():
    world = World()
    say(world, times=3)
    assert world.circuits == []
    assert set(world.rows) == {b"mcp:fetch|family", FETCH.encode()}


def test_an_event_without_a_target_counts_for_the_tool(world):
    say(world, "error", target=None, times=3, error_class="server")
    assert world.records(FETCH)[-1].state == "open"
    say(world, target="dead.org")
    assert world.row(DEAD).state == "closed"


def test_an_empty_target_counts_for_the_tool_and_one_that_is_too_long_is_a_dead_letter(world):
    say(world, target="")
    say(world, target="x" * 257)
    assert world.row(FETCH).total_calls == 1
    assert [letter.field for letter in world.dead] == ["target"]


def test_what_a_tool_answers_about_its_target_never_opens_the_family(world):
    for number in range(5):
        say(
            world,
            "error",
            target=f"s{number}",
            error_class="transport",
            error_type=TARGET_ERROR,
            emitter_id=str(number),
        )
    family = world.row("mcp:fetch|family")
    assert (family.total_calls, family.total_failed) == (5, 0)
    say(world, "error", error_class="transport", error_type="ConnectionError", times=2)
    assert world.records("mcp:fetch|family")[-1].state == "open"


def test_targets_beyond_the_limit_count_for_the_tool():
    world = World(policies=OnePolicy(SPLIT), limits=Limits(scoped=2))
    for target in ("a", "b", "c"):
        say(world, target=target)
    assert {key.decode() for key in world.rows} >= {FETCH, f"{FETCH}@a", f"{FETCH}@b"}
    assert world.row(FETCH).total_calls == 1
    assert MAX_CIRCUITS_PER_TOOL == 1_000


def test_a_target_is_probed_by_the_process_that_asks_for_it(world):
    say(world, "error", times=3, error_class="server")
    say(world, "rejected", seconds=10, probe_requested=True, emitter_id="a")
    half_open = world.records(DEAD)[-1]
    assert (half_open.state, half_open.leases[0].emitter_id) == ("half_open", "a")
    say(world, seconds=11, generation=half_open.generation, lease_id=half_open.leases[0].lease_id, emitter_id="a")
    assert world.records(DEAD)[-1].state == "closed"


def test_a_restart_and_a_replay_keep_the_circuits_of_targets(world):
    say(world, "error", times=2, error_class="server")
    world.start()
    world.say("error", tool_name=FETCH, target="dead.org", error_class="server")
    world.run(crash="after_rows")
    world.run_all()
    assert [record.state for record in world.records(DEAD)][-1] == "open"
    assert (world.row(DEAD).total_calls, world.row(DEAD).total_failed) == (3, 3)


def test_a_changed_rule_is_published_after_a_restart(world):
    say(world)
    world.policies = OnePolicy(SPLIT.model_copy(update={"target": "path"}), OF_FAMILY)
    world.start()
    say(world)
    assert world.records(FETCH)[-1].target == "path"


def test_commands_reach_all_targets_and_one_alone(world):
    say(world)
    send(world, circuit_id=f"{FETCH}@other.org")
    assert world.records(f"{FETCH}@other.org")[-1].state == "forced_open"
    assert world.records(DEAD) == []
    send(world)
    assert world.records(DEAD)[-1].state == world.records(FETCH)[-1].state == "forced_open"
    say(world, "rejected", target="new.org")
    assert world.records(f"{FETCH}@new.org")[-1].state == "forced_open"
    send(world, circuit_id=f"{FETCH}|user=ana")
    assert "the policy's scope is target" in world.dead[-1].reason


def test_a_tool_named_like_a_target_is_another_circuit(world):
    say(world, "error", times=3, error_class="server")
    world.say(tool_name=DEAD)
    world.run_all()
    assert world.row(f"{FETCH}%40dead.org").tool_name == DEAD
    assert world.row(DEAD).tool_name == FETCH


def send(world, **fields):
    command = Command.from_dict({"tool_name": FETCH, "verb": "force_open", "actor": "ada", **fields})
    world.append(command.to_bytes(), topic=COMMANDS, tool_name=FETCH)
    world.run_all()
