"""A command for a limited time ends by the broker's clock, with the first event after it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from switchgear_schemas import Command
from tests.support.fleet import COMMANDS, COUNTING, START_MS, OnePolicy, World

STATE = {"disable": "disabled", "metrics_only": "metrics_only"}
SESSIONS = COUNTING.model_copy(update={"scope": "session"})


def _send(world: World, verb: str, *, seconds: float = 0, until: float | None = None, **fields: object) -> None:
    moment = None if until is None else datetime.fromtimestamp(START_MS / 1000 + until, UTC)
    command = Command.from_dict({"tool_name": "search", "verb": verb, "actor": "ada", "until": moment, **fields})
    world.append(command.to_bytes(), topic=COMMANDS, seconds=seconds)
    world.run_all()


@pytest.mark.parametrize("verb", STATE)
def test_a_command_for_a_time_holds_until_then_and_the_next_call_returns_the_circuit_to_its_policy(verb):
    world = World()
    _send(world, verb, until=600, reason="drill")
    (record,) = world.records()
    assert (record.state, record.stands_until) == (STATE[verb], datetime.fromtimestamp(START_MS / 1000 + 600, UTC))
    world.say(seconds=599.9)
    world.run_all()
    assert len(world.records()) == 1
    world.say(seconds=600)
    world.run_all()
    ended = world.records()[-1]
    assert (ended.state, ended.stands_until) == ("closed", None)
    assert ended.cause is not None
    assert (ended.cause.actor, ended.cause.reason) == ("ada", "the time given is over")


@pytest.mark.parametrize("verb", STATE)
def test_a_command_for_a_time_ends_after_a_restart(verb):
    world = World()
    _send(world, verb, until=10)
    world.start()
    world.say(seconds=11)
    world.run_all()
    assert [record.state for record in world.records()] == [STATE[verb], "closed"]


def test_a_newer_command_replaces_the_end_of_the_one_before():
    world = World()
    _send(world, "disable", until=10)
    _send(world, "disable", seconds=1)
    world.say(seconds=11)
    world.run_all()
    assert [(record.state, record.stands_until is None) for record in world.records()] == [
        ("disabled", False),
        ("disabled", True),
    ]


def test_repeating_a_command_for_a_time_publishes_nothing():
    world = World()
    for seconds in (0, 1):
        _send(world, "disable", until=10, seconds=seconds)
    assert len(world.records()) == 1


def test_open_for_a_time_is_followed_by_probes():
    world = World()
    _send(world, "force_open", until=10)
    world.say("rejected", seconds=9.9, probe_requested=True, emitter_id="a")
    world.run_all()
    assert world.records()[-1].state == "open"
    world.say("rejected", seconds=10, probe_requested=True, emitter_id="a")
    world.run_all()
    half_open = world.records()[-1]
    (lease,) = half_open.leases
    world.say(seconds=11, generation=half_open.generation, lease_id=lease.lease_id, emitter_id="a")
    world.run_all()
    assert [record.state for record in world.records()] == ["open", "half_open", "closed"]


@pytest.mark.parametrize("verb", [*STATE, "force_open"])
def test_force_open_for_a_time_ends_for_the_tool_and_its_sessions_together(verb):
    """Without this, no event and no probe would ever reach the tool's own circuit, and its state would stay."""
    world = World(policies=OnePolicy(SESSIONS))
    world.say(session_id="s1")
    world.run_all()
    _send(world, verb, until=10)
    world.say("rejected", session_id="s1", seconds=10, probe_requested=True, emitter_id="a")
    world.run_all()
    assert world.records()[-1].state == "closed"
    own = world.records("search|session=s1")[-1]
    assert own.state == ("half_open" if verb == "force_open" else "closed")


def test_a_new_session_takes_over_the_command_for_a_time_on_its_tool():
    world = World(policies=OnePolicy(SESSIONS))
    _send(world, "disable", until=10)
    world.say(session_id="s9", seconds=5)
    world.run_all()
    assert world.records("search|session=s9")[-1].stands_until == world.records()[-1].stands_until
    world.say(session_id="s9", seconds=10)
    world.run_all()
    assert world.records("search|session=s9")[-1].state == "closed"


def test_one_session_alone_may_be_commanded_known_or_not():
    world = World(policies=OnePolicy(SESSIONS))
    world.say(session_id="s1")
    world.say(session_id="s2")
    world.run_all()
    for name in ("s2", "s3"):
        _send(world, "force_open", circuit_id=f"search|session={name}")
    assert [world.records(f"search|session={name}") != [] for name in ("s1", "s2", "s3")] == [False, True, True]
    assert world.records("search|session=s3")[-1].state == "forced_open"
    assert world.records() == []
    world.start()
    world.say("rejected", session_id="s3")
    world.run_all()
    assert world.row("search|session=s3").total_rejected == 1


def test_the_tools_own_circuit_may_be_commanded_alone():
    world = World(policies=OnePolicy(SESSIONS))
    world.say(session_id="s1")
    world.run_all()
    _send(world, "force_open", circuit_id="search")
    assert world.records()[-1].state == "forced_open"
    assert world.records("search|session=s1") == []


@pytest.mark.parametrize(
    ("scope", "circuit_id"),
    [
        ("tool", "search|user=u1"),
        ("session", "search|user=u1"),
        ("session", "other|session=s"),
        ("session", "search|session="),
    ],
)
def test_a_circuit_in_which_nothing_would_count_is_refused_with_what_to_do(scope, circuit_id):
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"scope": scope})))
    _send(world, "force_open", circuit_id=circuit_id)
    (letter,) = world.dead
    assert (letter.field, world.circuits) == ("circuit_id", [])
    assert f"the policy's scope is {scope}" in letter.reason


def test_a_refused_command_whose_letter_was_lost_in_a_crash_is_refused_again():
    world = World()
    world.append(
        Command(tool_name="search", verb="close", actor="ada", circuit_id="search|user=u").to_bytes(),
        topic=COMMANDS,
    )
    world.append(Command(tool_name="search", verb="force_open", actor="ada").to_bytes(), topic=COMMANDS)
    world.run(crash="after_rows")
    world.run_all()
    assert [letter.field for letter in world.dead] == ["circuit_id"]
    assert [record.state for record in world.records()] == ["forced_open"]
