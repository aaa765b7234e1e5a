"""The owner lets a recovered circuit through by degrees: one record a step, and the same rows wherever the log is cut."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.breaker.ramp import AFTER_RETRY_AFTER
from switchgear_schemas import BreakerPolicy, Command
from tests.support.fleet import COMMANDS, START_MS, OnePolicy, World, at

SERVER = "mcp:github"
FAMILY = f"{SERVER}|family"
RULES = {
    "consecutive_failures": 3,
    "wait_duration_in_open_state_s": 10,
    "backoff_multiplier": 2,
    "recovery_ramp": (0.1, 0.25, 0.5),
    "recovery_ramp_step_s": 10,
}
POLICY = BreakerPolicy(**RULES)
OF_FAMILIES = BreakerPolicy(**RULES | {"minimum_tools": 2, "counted_error_classes": {"transport"}})
CLOSED_AT = 12


@pytest.fixture
def world() -> World:
    return World(policies=OnePolicy(POLICY, OF_FAMILIES))


def recover(world: World, tool: str = "search", **fields) -> None:
    """Let a circuit open at 0 s, and close by a probe of process p at 12 s."""
    for _ in range(3):
        world.say("error", tool_name=tool, emitter_id="p", **fields)
    world.say("rejected", tool_name=tool, seconds=11, emitter_id="p", probe_requested=True, **fields)
    world.run_all()
    (lease,) = world.records(tool)[-1].leases
    succeed(world, CLOSED_AT, tool, generation=2, lease_id=lease.lease_id, **fields)


def succeed(world: World, seconds: float, tool: str = "search", **fields) -> None:
    world.say(tool_name=tool, seconds=seconds, recorded_at=at(seconds), **{"emitter_id": "p"} | fields)
    world.run_all()


def shares(world: World, circuit_id: str = "search") -> list[tuple[str, float]]:
    return [(record.state, record.admitted_share) for record in world.records(circuit_id)]


def test_each_step_is_one_record(world):
    recover(world)
    for seconds in range(CLOSED_AT + 1, CLOSED_AT + 45):
        succeed(world, seconds, generation=3)
    assert shares(world) == [
        ("open", 1),
        ("half_open", 1),
        ("closed", 0.1),
        ("closed", 0.25),
        ("closed", 0.5),
        ("closed", 1),
    ]
    steps = world.records()[-3:]
    assert [(step.cause and step.cause.rule, step.cause and step.cause.value) for step in steps] == [
        ("recovery_ramp", 0.25),
        ("recovery_ramp", 0.5),
        ("recovery_ramp", 1),
    ]
    assert {record.changed_at for record in world.records()[2:]} == {world.records()[2].changed_at}
    assert [record.version for record in world.records()] == list(range(1, 7))
    assert world.row().total_calls == 48


def test_refused_calls_drive_the_steps_too_and_none_goes_by_without_an_event(world):
    recover(world)
    world.say("rejected", seconds=CLOSED_AT + 9, emitter_id="q", generation=3)
    world.run_all()
    assert shares(world)[-1] == ("closed", 0.1)
    world.say("rejected", seconds=CLOSED_AT + 25, emitter_id="q", generation=3)
    world.run_all()
    assert shares(world)[-2:] == [("closed", 0.1), ("closed", 0.5)]
    assert world.row().rejected == 2


def test_a_new_owner_goes_on_with_the_ramp_from_the_row(world):
    recover(world)
    world.start()
    assert shares(world)[-1] == ("closed", 0.1)
    assert len(world.records()) == 3, "the take-over publishes nothing that readers have"
    succeed(world, CLOSED_AT + 10, generation=3)
    world.start()
    succeed(world, CLOSED_AT + 30, generation=3)
    assert shares(world)[-2:] == [("closed", 0.25), ("closed", 1)]


def test_a_new_owner_publishes_the_share_of_a_policy_that_changed_meanwhile(world):
    recover(world)
    world.policies.policy = BreakerPolicy(**RULES | {"recovery_ramp": None})
    world.start()
    assert shares(world)[-2:] == [("closed", 0.1), ("closed", 1)]


def test_a_new_owner_goes_on_with_the_ramp_of_a_tool_that_asked_to_wait_and_the_records_say_why(world):
    world.policies.policy = BreakerPolicy(**RULES | {"recovery_ramp": None, "retry_after_ramp": (0.2, 0.6)})
    recover(world, retry_after_s=1)
    world.start()
    succeed(world, CLOSED_AT + 10, generation=3)
    world.start()
    succeed(world, CLOSED_AT + 20, generation=3)
    assert shares(world)[-3:] == [("closed", 0.2), ("closed", 0.6), ("closed", 1)]
    assert {record.cause and record.cause.reason for record in world.records()[-3:]} == {AFTER_RETRY_AFTER}
    world.start()
    assert len(world.records()) == 5


def test_failures_of_admitted_calls_open_again_at_once_for_a_longer_wait(world):
    recover(world)
    succeed(world, CLOSED_AT + 1, generation=3)
    succeed(world, CLOSED_AT + 1, generation=3)
    for _ in range(2):
        world.say("error", seconds=CLOSED_AT + 2, emitter_id="p", generation=3)
        succeed(world, CLOSED_AT + 2, generation=3)
    for _ in range(2):
        world.say("error", seconds=CLOSED_AT + 2, emitter_id="p", generation=3)
    world.run_all()
    opened = world.records()[-1]
    assert opened.cause is not None
    assert (opened.state, opened.admitted_share, opened.attempt) == ("open", 1, 2)
    assert (opened.cause.rule, opened.cause.value, opened.cause.sample) == ("recovery_failed", 0.5, 8)
    assert opened.open_until is not None
    assert opened.open_until.timestamp() == START_MS / 1000 + CLOSED_AT + 2 + 20
    assert world.row().last_error == "error"


@pytest.mark.parametrize("verb", ["close", "reset", "auto"])
def test_an_operator_ends_the_ramp(world, verb):
    recover(world)
    command = Command(verb=verb, actor="ana", tool_name="search")
    world.append(command.to_bytes(), seconds=13, topic=COMMANDS)
    world.run_all()
    assert world.dead == []
    assert shares(world)[-1] == ("closed", 1)


def test_a_family_recovers_by_degrees_as_its_tools_do(world):
    for _ in range(3):
        for name in ("search", "merge"):
            world.say("error", tool_name=f"{SERVER}:{name}", emitter_id="p", error_class="transport")
    world.say("rejected", tool_name=f"{SERVER}:merge", seconds=11, emitter_id="p", probe_requested=True)
    world.run_all()
    (lease,) = world.records(FAMILY)[-1].leases
    succeed(world, CLOSED_AT, f"{SERVER}:merge", family_generation=2, family_lease_id=lease.lease_id)
    assert shares(world, FAMILY)[-1] == ("closed", 0.1)
    for seconds in range(CLOSED_AT + 1, CLOSED_AT + 45):
        succeed(world, seconds, f"{SERVER}:comment", family_generation=3, emitter_id=f"p{seconds % 3}")
    assert [share for _, share in shares(world, FAMILY)][-4:] == [0.1, 0.25, 0.5, 1]
    family = world.row(FAMILY)
    assert family.total_calls == 6 + 1 + 44


def test_calls_of_users_drive_the_ramp_of_the_tools_own_circuit(world):
    world.policies.policy = BreakerPolicy(**RULES | {"scope": "user"})
    recover(world)
    succeed(world, CLOSED_AT + 10, user_id="ana")
    assert shares(world)[-1] == ("closed", 0.25)


calls = st.lists(
    st.tuples(
        st.sampled_from(["search", "merge", "comment"]),
        st.sampled_from(["success", "success", "error", "rejected"]),
        st.floats(0, 6),
    ),
    max_size=60,
)
cuts = st.lists(
    st.tuples(st.integers(1, 15), st.sampled_from([None, "before_rows", "during_rows", "after_rows"])), max_size=30
)


@pytest.mark.slow
@given(calls, cuts, st.integers(0, 2**32))
def test_a_log_that_is_cut_and_replayed_anywhere_leaves_the_same_rows_and_the_share_never_falls(made, plan, seed):
    worlds = [World(policies=OnePolicy(POLICY, OF_FAMILIES)) for _ in range(2)]
    for world in worlds:
        rng, clock = random.Random(seed), 0.0
        for number in range(3):
            world.say(
                "error",
                tool_name=f"{SERVER}:{('search', 'merge')[number % 2]}",
                error_class="transport",
                emitter_id="p",
            )
        for name, status, wait in made:
            clock += wait
            world.say(
                status, tool_name=f"{SERVER}:{name}", seconds=clock, emitter_id=f"p{rng.randrange(3)}",
                error_class="transport" if status == "error" else None, probe_requested=status == "rejected",
            )  # fmt: skip
    calm, rough = worlds
    calm.run_all()
    for batch, crash in plan:
        rough.run(batch=batch, crash=crash)  # type: ignore[arg-type]
    rough.run_all()
    assert rough.rows == calm.rows
    for circuit_id in (FAMILY, *(f"{SERVER}:{name}" for name in ("search", "merge", "comment"))):
        records = {record.version: record for record in rough.records(circuit_id)}
        ordered = [records[version] for version in sorted(records)]
        for before, after in itertools.pairwise(ordered):
            assert after.generation > before.generation or after.admitted_share >= before.admitted_share
