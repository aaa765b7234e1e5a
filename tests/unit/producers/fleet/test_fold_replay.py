"""A batch may be cut anywhere, crash or be read twice: the rows are those of an undisturbed run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas import Circuit
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import World, event

pytestmark = pytest.mark.slow

calls = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["success", "error", "error", "timeout", "rejected"]),
        st.floats(0, 8, allow_nan=False),
        st.booleans(),
    ),
    max_size=80,
)
disturbances = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from([None, None, "before_rows", "after_rows", "after_outputs"])),
    max_size=40,
)


def _fill(world: World, made: list[tuple[str, str, float, bool]]) -> None:
    clock = 0.0
    for number, (tool, status, step, probe) in enumerate(made):
        clock += step
        world.say(
            status, tool_name=tool, seconds=clock, emitter_id=f"e{number % 3}", probe_requested=probe, metric=number
        )


def _disturb(world: World, plan: list[tuple[int, str | None]]) -> None:
    for batch, crash in plan:
        world.run(batch=batch, crash=crash)  # type: ignore[arg-type]
    world.run_all()


@given(calls, disturbances)
def test_crashes_and_replays_leave_the_rows_of_an_undisturbed_run(made, plan):
    calm, rough = World(), World()
    for world in (calm, rough):
        _fill(world, made)
    calm.run_all()
    _disturb(rough, plan)
    assert rough.rows == calm.rows


@given(calls, disturbances)
def test_versions_rise_and_one_version_has_one_content(made, plan):
    world = World()
    _fill(world, made)
    _disturb(world, plan)
    seen: dict[str, dict[int, bytes]] = {}
    for value in world.circuits:
        circuit = Circuit.from_bytes(value)
        versions = seen.setdefault(circuit.circuit_id, {})
        assert versions.setdefault(circuit.version, value) == value
        assert circuit.version == max(versions)
    for circuit_id, versions in seen.items():
        assert versions[max(versions)] == world.row(circuit_id).record


@given(calls, disturbances, st.lists(st.integers(0, 3), min_size=80, max_size=80))
def test_wrongly_keyed_calls_are_counted_once_whatever_crashes(made, plan, places):
    world = World()
    for (tool, status, _step, _probe), place in zip(made, places, strict=False):
        world.append(event(tool, status), tool_name=tool, partition=place)
    _disturb(world, plan)
    for tool in ("a", "b", "c"):
        statuses = [status for name, status, *_ in made if name == tool and status != "rejected"]
        if any(name == tool for name, *_ in made):
            row = world.row(tool)
            assert row.total_calls == len(statuses)
            assert row.total_failed == sum(status != "success" for status in statuses)
            assert owner_partition(tool, world.partitions) in range(4)


@given(calls, st.integers(1, 10))
def test_a_log_read_twice_from_the_start_changes_nothing(made, batch):
    world = World()
    _fill(world, made)
    world.run_all(batch)
    rows, circuits = dict(world.rows), list(world.circuits)
    world.committed.clear()
    world.start()
    world.run_all(batch)
    assert (world.rows, world.circuits) == (rows, circuits)
    assert world.counted.duplicates == len(made)
