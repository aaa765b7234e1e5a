"""Invented names: the table stays bounded, no circuit that matters is forgotten, and a replay agrees."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.fleet.registry import Limits
from switchgear.fleet.rows import Row
from switchgear_schemas import BreakerPolicy, Circuit, Command
from tests.support.fleet import COMMANDS, COUNTING, OnePolicy, World, event

HOUR = 3_600
SESSIONS = COUNTING.model_copy(update={"scope": "session"})


def _world(**limits: float) -> World:
    return World(partitions=1, policies=OnePolicy(SESSIONS), limits=Limits(**limits))  # type: ignore[arg-type]


def _say(world: World, session: str, status: str = "success", *, hours: float = 0, **fields: object) -> None:
    world.say(status, session_id=session, seconds=hours * HOUR, **fields)


def _sessions(world: World) -> set[str]:
    rows = [Row.decode(data) for data in world.rows.values()]
    return {row.circuit_id.partition("=")[2] for row in rows if row.scope == "session"}


def test_a_session_too_many_shares_the_tools_own_circuit():
    world = _world(scoped=2)
    for session in ("s1", "s2", "s3", "s3"):
        _say(world, session)
    world.run_all()
    assert _sessions(world) == {"s1", "s2"}
    assert world.row().total_calls == 2


def test_a_crowd_of_sessions_that_fail_opens_the_tools_own_circuit_and_no_other():
    world = _world(scoped=1)
    _say(world, "s1")
    for number in range(3):
        _say(world, f"invented-{number}", "error")
    world.run_all()
    assert [record.circuit_id for record in world.records()] == ["search"]
    assert world.row("search|session=s1").total_failed == 0


def test_an_idle_session_makes_room_and_leaves_the_table():
    world = _world(scoped=1)
    _say(world, "s1")
    _say(world, "s2", hours=0.99)
    _say(world, "s3", hours=2)
    world.run_all()
    assert _sessions(world) == {"s3"}
    assert world.counted.retired == 1


def test_an_open_session_a_failing_one_and_a_commanded_one_never_make_room():
    world = _world(scoped=3)
    for _ in range(3):
        _say(world, "open", "error")
    _say(world, "failing", "error")
    _say(world, "forced")
    command = Command(tool_name="search", verb="force_open", actor="ada", reason="drill")
    world.append(command.to_bytes(), topic=COMMANDS)
    world.run_all()
    for number in range(20):
        _say(world, f"new-{number}", "rejected", hours=20)
    world.run_all()
    assert _sessions(world) == {"open", "failing", "forced"}


def test_a_published_circuit_that_retires_leaves_a_tombstone_and_comes_back_above_its_old_version():
    world = _world(scoped=1)
    for _ in range(3):
        _say(world, "s1", "error")
    _say(world, "s1", "rejected", probe_requested=True, emitter_id="a", hours=0.01)
    world.run_all()
    half_open = world.records("search|session=s1")[-1]
    (lease,) = half_open.leases
    _say(world, "s1", generation=half_open.generation, lease_id=lease.lease_id, emitter_id="a", hours=0.01)
    _say(world, "s2", hours=40)
    world.run_all()
    before = world.records("search|session=s1")
    assert [record.state for record in before] == ["open", "half_open", "closed"]
    assert world.buried == {"search|session=s1": 3}
    for _ in range(3):
        _say(world, "s1", "error", hours=80)
    world.run_all()
    after = world.records("search|session=s1")[3:]
    assert [record.state for record in after] == ["open"]
    assert after[0].version > before[-1].version


def test_a_tombstone_lost_in_a_crash_is_made_up():
    world = _world(scoped=1)
    patient = SESSIONS.model_copy(update={"consecutive_failures": 4})
    _say(world, "s1")
    world.append(
        Command(tool_name="search", verb="set_policy", actor="ada", policy=SESSIONS).to_bytes(),
        topic=COMMANDS,
    )
    world.run_all()
    _say(world, "s1")
    world.run_all()
    world.append(
        Command(tool_name="search", verb="set_policy", actor="ada", policy=patient).to_bytes(),
        topic=COMMANDS,
    )
    world.run_all()
    assert world.records("search|session=s1")
    _say(world, "s2", hours=40)
    world.run(crash="after_rows")
    assert "search|session=s1" in world.buried


def test_a_tool_too_many_is_a_dead_letter_with_what_to_do_and_known_tools_go_on():
    world = World(partitions=1, limits=Limits(tools=2))
    for tool in ("a", "b", "c", "a"):
        world.say(tool_name=tool)
    world.run_all()
    world.append(Command(tool_name="d", verb="force_open", actor="ada").to_bytes(), tool_name="d", topic=COMMANDS)
    world.run_all()
    assert set(world.rows) == {b"a", b"b"}
    assert world.row("a").total_calls == 2
    assert [letter.field for letter in world.dead] == ["tool_name", "tool_name"]
    assert "session_id" in world.dead[0].reason
    assert "holds 2 already" in world.dead[0].reason


@pytest.mark.parametrize(("days", "kept"), [(6.9, {b"a"}), (7.1, {b"b"})])
def test_a_tool_makes_room_after_the_retention_of_its_events(days, kept):
    world = World(partitions=1, limits=Limits(tools=1))
    world.say(tool_name="a")
    world.say(tool_name="b", seconds=days * 86_400)
    world.run_all()
    assert set(world.rows) == kept
    assert len(world.dead) == (kept == {b"a"})


def test_a_tool_that_was_published_or_has_sessions_never_makes_room():
    world = World(partitions=1, policies=OnePolicy(SESSIONS), limits=Limits(tools=2))
    for _ in range(3):
        world.say("error", tool_name="published")
    world.say(tool_name="crowded", session_id="s1")
    world.say(tool_name="new", seconds=30 * 86_400)
    world.run_all()
    assert b"new" not in world.rows
    assert len(world.dead) == 1


def test_a_tool_that_comes_back_has_rows_that_recovery_takes_for_newer():
    world = World(partitions=1, limits=Limits(tools=1))
    for _ in range(500):
        world.say(tool_name="a")
    world.run_all()
    before = world.row("a").applied
    world.say(tool_name="b", seconds=8 * 86_400)
    world.say(tool_name="a", seconds=16 * 86_400)
    world.run_all()
    assert world.row("a").applied > before


def test_rows_go_after_the_fences_that_cover_them():
    world = _world(scoped=1)
    _say(world, "s1")
    world.run_all()
    _say(world, "s2", hours=2)
    world.fold.executions(world.log["t.executions", 0][1:])
    assert list(world.fold.take().rows) == [b"search|session=s2", b"search", b"search|session=s1"]


calls = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from(["s1", "s2", "s3", "s4", "s5", None]),
        st.sampled_from(["success", "success", "error", "rejected"]),
        st.sampled_from([0, 1, 5, 2_000, 4_000, 100_000]),
    ),
    max_size=60,
)


def _plan(*crashes: str | None):
    return st.lists(st.tuples(st.integers(1, 20), st.sampled_from([None, *crashes])), max_size=40)


def _fill(world: World, made: list[tuple[str, str | None, str, int]]) -> None:
    clock = 0
    for number, (tool, session, status, step) in enumerate(made):
        clock += step
        value = event(
            tool, status, session_id=session, probe_requested=status == "rejected", emitter_id=f"e{number % 3}"
        )
        world.append(value, tool_name=tool, seconds=clock)


def _calls(world: World) -> int:
    return sum(Row.decode(data).total_calls for data in world.rows.values())


@pytest.mark.slow
@given(calls, _plan("before_rows", "after_rows", "after_outputs"))
def test_circuits_that_retire_leave_the_rows_of_an_undisturbed_run_wherever_it_is_cut(made, plan):
    calm, rough = _world(scoped=2, tools=3), _world(scoped=2, tools=3)
    for world in (calm, rough):
        _fill(world, made)
    calm.run_all()
    for batch, crash in plan:
        rough.run(batch=batch, crash=crash)  # type: ignore[arg-type]
    rough.run_all()
    assert rough.rows == calm.rows
    assert {letter.key for letter in rough.dead} == {letter.key for letter in calm.dead}


@pytest.mark.slow
@given(calls, _plan("during_rows", "after_rows"))
def test_a_crash_between_two_rows_counts_no_call_twice_and_loses_none(made, plan):
    made = [(tool, session, status, min(step, 5)) for tool, session, status, step in made]
    world = _world(scoped=2)
    _fill(world, made)
    for batch, crash in plan:
        world.run(batch=batch, crash=crash)  # type: ignore[arg-type]
    world.run_all()
    assert _calls(world) == sum(status != "rejected" for _, _, status, _ in made)


@pytest.mark.slow
@given(calls, _plan("before_rows", "during_rows", "after_rows", "after_outputs"))
def test_readers_see_versions_rise_through_every_life_of_a_circuit(made, plan):
    world = _world(scoped=2)
    _fill(world, made)
    for batch, crash in plan:
        world.run(batch=batch, crash=crash)  # type: ignore[arg-type]
    world.run_all()
    seen: dict[str, int] = {}
    for value in world.circuits:
        circuit = Circuit.from_bytes(value)
        assert circuit.version >= seen.get(circuit.circuit_id, 0)
        seen[circuit.circuit_id] = circuit.version


@pytest.mark.deep
def test_a_hundred_thousand_invented_sessions_leave_table_and_memory_flat():
    world = World(partitions=1, policies=OnePolicy(BreakerPolicy(scope="session")))

    def invent(first: int, last: int) -> None:
        for start in range(first, last, 5_000):
            world.log.clear()
            for number in range(start, start + 5_000):
                world.say(session_id=f"invented-{number}")
            (log,) = world.log.values()
            for message in log:
                message.offset += start
            world.fold.executions(log)
            world.write(world.fold.take())
        world.log.clear()

    invent(0, 90_000)
    gc.collect()
    tracemalloc.start()
    try:
        invent(90_000, 100_000)
        gc.collect()
        grown, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(world.rows) == 1_001
    assert _calls(world) == 100_000
    assert grown < 100_000


def test_a_family_too_many_is_a_dead_letter_and_known_families_go_on():
    world = World(partitions=1, limits=Limits(tools=2))
    for server in ("a", "b", "c", "a"):
        world.say(tool_name=f"mcp:{server}:t{server}")
    world.run_all()
    (letter,) = world.dead
    assert "this is a new family" in letter.reason
    assert world.row("mcp:a|family").total_calls == 2


def test_an_idle_family_makes_room_and_comes_back_with_rows_that_recovery_takes_for_newer():
    world = World(partitions=1, limits=Limits(tools=1))
    world.say(tool_name="mcp:a:t")
    world.run_all()
    before = world.row("mcp:a|family").applied
    for day, server in ((8, "b"), (16, "a")):
        world.say(tool_name=f"mcp:{server}:t", seconds=day * 24 * HOUR)
        world.run_all()
    assert b"mcp:b|family" not in world.rows
    assert world.row("mcp:a|family").applied > before
    assert world.dead == []


def test_a_family_that_was_published_never_makes_room():
    world = World(partitions=1, limits=Limits(tools=1), policies=OnePolicy(family_policy=COUNTING))
    for _ in range(3):
        world.say("error", tool_name="mcp:a:t", error_class="transport")
    world.say(tool_name="mcp:b:t", seconds=30 * 24 * HOUR)
    world.run_all()
    assert b"mcp:a|family" in world.rows
    assert len(world.dead) == 1
