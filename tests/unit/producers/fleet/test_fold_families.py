"""A family's circuit is folded from the calls of all its tools, together with theirs."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas import BreakerPolicy, Cusum
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import EXECUTIONS, OnePolicy, World, at
from tests.support.table import table

SERVER = "mcp:github"
FAMILY = f"{SERVER}|family"
TOOLS = [f"{SERVER}:{name}" for name in ("search", "merge", "comment")]
WAIT_S = 10
POLICY = BreakerPolicy(
    consecutive_failures=4,
    minimum_tools=2,
    wait_duration_in_open_state_s=WAIT_S,
    counted_error_classes=frozenset({"transport", "timeout"}),
)
OF_TOOLS = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=60)


@pytest.fixture
def world() -> World:
    return World(policies=OnePolicy(OF_TOOLS, POLICY))


def fail(world: World, tool: str, seconds: float = 0, **fields) -> None:
    event = {"error_class": "transport", "emitter_id": "p", "recorded_at": at(seconds)} | fields
    world.say("error", tool_name=tool, seconds=seconds, **event)


def die(world: World, seconds: float = 0) -> None:
    """Let every tool fail three times, so that all circuits open."""
    for _ in range(3):
        for tool in TOOLS:
            fail(world, tool, seconds)
    world.run_all()


def reject(world: World, tool: str, seconds: float, emitter_id: str = "p", **fields) -> None:
    event = {"emitter_id": emitter_id, "probe_requested": True, "recorded_at": at(seconds)} | fields
    world.say("rejected", tool_name=tool, seconds=seconds, **event)
    world.run_all()


def answer_probe(world: World, seconds: float, **fields) -> None:
    """Let the probe of the family succeed, by a call of its first tool."""
    record = world.records(FAMILY)[-1]
    event = {"generation": 1, "family_generation": record.generation, "family_lease_id": record.leases[0].lease_id}
    world.say(tool_name=TOOLS[0], seconds=seconds, recorded_at=at(seconds), **event, **fields)
    world.run_all()


def test_counts_the_calls_of_all_tools_once_in_the_circuit_of_their_family(world):
    for tool in TOOLS:
        world.say(tool_name=tool)
        fail(world, tool)
    world.run_all()
    assert [world.row(tool).total_calls for tool in TOOLS] == [2, 2, 2]
    family = world.row(FAMILY)
    assert (family.tool_name, family.scope, family.total_calls, family.total_failed) == (SERVER, "family", 6, 3)
    assert world.counted.folded == 6


def test_the_success_that_makes_up_the_minimum_of_calls_opens_the_family_if_enough_have_failed():
    rates = POLICY.model_copy(
        update={"consecutive_failures": None, "failure_rate_threshold": 0.5, "minimum_number_of_calls": 4}
    )
    world = World(policies=OnePolicy(OF_TOOLS, rates))
    for tool in TOOLS[:2]:
        fail(world, tool)
    for tool in TOOLS[:2]:  # in one batch, so that they may be counted together
        world.say(tool_name=tool, emitter_id="p")
    world.run_all()
    (opened,) = world.records(FAMILY)
    assert (opened.state, opened.cause.rule, opened.cause.sample) == ("open", "failure_rate", 4)


def test_every_record_names_its_family(world):
    die(world)
    world.say("error", tool_name="search", error_class="transport")
    for _ in range(2):
        world.say("error", tool_name="search", error_class="transport")
    world.run_all()
    assert {record.family for tool in TOOLS for record in world.records(tool)} == {SERVER}
    (opened,) = world.records(FAMILY)
    assert (opened.family, opened.tool_name, opened.scope, opened.state) == (SERVER, SERVER, "family", "open")
    assert opened.cause.tools == 2
    assert world.records("search")[0].family is None


def test_one_broken_tool_opens_its_own_circuit_and_not_that_of_its_family(world):
    world.say(tool_name=TOOLS[1])
    for _ in range(50):
        fail(world, TOOLS[0])
    world.run_all()
    assert world.records(TOOLS[0])[-1].state == "open"
    assert world.records(FAMILY) == []


FAILS = st.sampled_from([("error", "transport"), ("timeout", "timeout"), ("error", "transport"), ("success", None)])
ANSWERS = st.sampled_from([("success", None), ("error", "tool"), ("error", "server"), ("error", "rate_limited")])
RULES = st.sampled_from(
    [
        {"consecutive_failures": 1},
        {"consecutive_failures": 4},
        {"failure_rate_threshold": 0.05, "minimum_number_of_calls": 1},
        {"failure_count": 2},
        {"cusum": Cusum()},
    ]
)


@pytest.mark.slow
@given(
    rule=RULES,
    reporters=st.integers(1, 3),
    calls=st.lists(
        st.tuples(
            st.one_of(
                st.tuples(st.just(TOOLS[0]), FAILS),
                st.tuples(st.sampled_from(TOOLS[1:]), ANSWERS),
            ),
            st.integers(0, 3),
            st.floats(0, 5),
        ),
        min_size=20,
        max_size=80,
    ),
)
def test_no_traffic_in_which_a_single_tool_fails_opens_the_circuit_of_its_server(rule, reporters, calls):
    family = BreakerPolicy(
        minimum_tools=2,
        minimum_reporters=reporters,
        counted_error_classes=frozenset({"transport", "timeout"}),
        **rule,
    )
    world = World(policies=OnePolicy(OF_TOOLS, family))
    seconds = 0.0
    for (tool, (status, error_class)), caller, pause in calls:
        seconds += pause
        fields = {"emitter_id": f"p{caller}", "recorded_at": at(seconds)}
        if error_class is not None:
            fields["error_class"] = error_class
        world.say(status, tool_name=tool, seconds=seconds, **fields)
    world.run_all()
    assert world.row(FAMILY).total_calls == len(calls)
    assert world.records(FAMILY) == []


def test_an_error_that_the_server_answered_is_a_success_of_the_family(world):
    for number in range(20):
        fail(world, TOOLS[number % 3], error_class="server")
    world.run_all()
    assert world.row(FAMILY).total_failed == 0
    assert world.records(TOOLS[0])[-1].state == "open"
    assert world.records(FAMILY) == []


def test_a_late_event_is_not_counted_for_the_family(world):
    fail(world, TOOLS[0], seconds=1000, recorded_at=at(0))
    world.run_all()
    assert (world.row(FAMILY).late, world.row(FAMILY).total_calls) == (1, 0)


def test_while_the_family_refuses_it_alone_grants_one_probe_to_all_its_tools(world):
    die(world)
    for number, tool in enumerate(TOOLS):
        reject(world, tool, 11, emitter_id=f"p{number}")
    (lease,) = world.records(FAMILY)[-1].leases
    assert lease.emitter_id == "p0"
    assert not any(record.leases for tool in TOOLS for record in world.records(tool))
    assert world.counted.leases == 1


def test_a_successful_probe_of_one_tool_closes_the_family_and_ends_the_waits_of_its_tools(world):
    die(world)
    reject(world, TOOLS[0], 11)
    (lease,) = world.records(FAMILY)[-1].leases
    generation = world.records(FAMILY)[-1].generation
    before = [world.records(tool)[-1] for tool in TOOLS]
    world.say(
        tool_name=TOOLS[0], seconds=12, emitter_id="p", generation=1, family_generation=generation,
        family_lease_id=lease.lease_id, recorded_at=at(12),
    )  # fmt: skip
    world.run_all()
    assert world.records(FAMILY)[-1].state == "closed"
    for tool, earlier in zip(TOOLS, before, strict=True):
        found = world.records(tool)[-1]
        assert (found.state, found.cause.rule, found.generation) == ("open", "family_recovered", earlier.generation)
        assert found.open_until == found.open_until.fromisoformat(at(12))
        assert found.version == earlier.version + 1
    reject(world, TOOLS[1], 13)
    assert world.records(TOOLS[1])[-1].state == "half_open"


def test_a_circuit_that_opened_before_the_outage_keeps_its_wait(world):
    world.policies.policy = OF_TOOLS.model_copy(update={"wait_duration_in_open_state_s": 500})
    world.fold.forget()
    for _ in range(3):
        fail(world, "mcp:github:old", 0, error_class="server")
    world.run_all()
    die(world, 200)
    reject(world, TOOLS[0], 211)
    answer_probe(world, 212)
    assert [record.state for record in world.records("mcp:github:old")] == ["open"]
    assert world.records(TOOLS[2])[-1].cause.rule == "family_recovered"


def test_the_circuits_of_users_end_their_waits_with_the_family(world):
    world.policies.policy = OF_TOOLS.model_copy(update={"scope": "user"})
    world.fold.forget()
    for _ in range(3):
        for tool in TOOLS:
            fail(world, tool, user_id="ana")
    world.run_all()
    reject(world, TOOLS[0], 11, user_id="ana")
    answer_probe(world, 12, user_id="ana")
    assert world.records(f"{TOOLS[1]}|user=ana")[-1].cause.rule == "family_recovered"


def test_an_operators_command_on_a_tool_outlasts_the_recovery_of_its_family(world):
    die(world)
    assert world.fold.registry.find(TOOLS[1]).command(
        "force_open", 1_800_000_001.0, actor="me", reason="", until=1_800_000_100.0, policy=None
    )
    reject(world, TOOLS[0], 11)
    answer_probe(world, 12)
    assert world.fold.registry.find(TOOLS[1]).breaker.open_until == 1_800_000_100.0


def test_an_operators_command_that_changes_nothing_leaves_the_recovery_of_the_family_as_it_was(world):
    die(world)
    given = {"actor": "me", "reason": "", "until": None, "policy": None}
    assert world.fold.registry.find(FAMILY).command("auto", 1_800_000_001.0, **given) is None
    reject(world, TOOLS[0], 11)
    answer_probe(world, 12)
    assert world.records(FAMILY)[-1].state == "closed"
    assert all(world.records(tool)[-1].cause.rule == "family_recovered" for tool in TOOLS)


def test_a_failed_probe_opens_the_family_again(world):
    die(world)
    reject(world, TOOLS[0], 11)
    record = world.records(FAMILY)[-1]
    fail(
        world, TOOLS[0], 12, generation=1, family_generation=record.generation,
        family_lease_id=record.leases[0].lease_id,
    )  # fmt: skip
    world.run_all()
    assert (world.records(FAMILY)[-1].state, world.records(FAMILY)[-1].attempt) == ("open", 2)


def test_a_caller_with_a_newer_record_of_the_family_gets_the_present_one(world):
    world.say(tool_name=TOOLS[0])
    reject(world, TOOLS[0], 1, family_generation=7)
    (published,) = world.records(FAMILY)
    assert (published.state, published.cause.rule) == ("closed", "asked")


def test_a_request_for_a_probe_of_a_family_that_has_closed_publishes_nothing_of_the_tool(world):
    world.say(tool_name=TOOLS[0])
    reject(world, TOOLS[0], 1, family_generation=0)
    assert world.records(TOOLS[0]) == world.records(FAMILY) == []


def test_tools_are_asked_for_probes_again_once_the_family_is_closed(world):
    for _ in range(3):
        fail(world, TOOLS[0], error_class="server")
    world.run_all()
    reject(world, TOOLS[0], 61)
    assert world.records(TOOLS[0])[-1].state == "half_open"
    assert world.records(FAMILY) == []


def test_an_event_in_the_partition_of_its_tool_is_copied_to_that_of_its_family():
    world = World(partitions=12, policies=OnePolicy(OF_TOOLS, POLICY))
    home = owner_partition(SERVER, 12)
    for tool in TOOLS:
        world.append(b'{"tool_name":"%b","status":"success"}' % tool.encode(), partition=owner_partition(tool, 12))
    world.run_all()
    assert all(owner_partition(tool, 12) != home for tool in TOOLS)
    assert len(world.log[EXECUTIONS, home]) == 3
    assert world.row(FAMILY).total_calls == 3


@pytest.mark.slow
@table("seed", range(30))
def test_crashes_between_rows_change_neither_the_counts_nor_the_state_of_tools_and_families(seed):
    chance = random.Random(seed)
    calm, stormy = (World(partitions=2, policies=OnePolicy(OF_TOOLS, POLICY)) for _ in range(2))
    for step in range(150):
        seconds = step * 1.5
        tool = chance.choice(TOOLS)
        fields = {"emitter_id": f"p{step % 3}", "recorded_at": at(seconds)}
        kind = chance.random()
        partition = chance.choice([None, 0, 1])
        for world in (calm, stormy):
            if kind < 0.5:
                value = {"status": "error", "error_class": "transport", **fields}
            elif kind < 0.7:
                value = {"status": "success", **fields}
            else:
                value = {"status": "rejected", "probe_requested": True, **fields}
            world.append(
                msgspec.json.encode({"tool_name": tool, **value}), tool_name=tool, seconds=seconds, partition=partition
            )
    calm.run_all(batch=7)
    while True:
        crash = chance.choice(["before_rows", "during_rows", "after_rows", "after_outputs", None, None])
        if not stormy.run(batch=7, crash=crash):
            break
    for circuit_id in (FAMILY, *TOOLS):
        one, other = calm.row(circuit_id), stormy.row(circuit_id)
        assert (one.total_calls, one.total_failed, one.total_rejected) == (
            other.total_calls, other.total_failed, other.total_rejected,
        )  # fmt: skip
        assert one.breaker == other.breaker
