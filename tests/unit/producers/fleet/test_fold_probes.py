"""Several probes: each is published, so that processes may ask for the next one, and there are never too many."""

from __future__ import annotations

import pytest

from switchgear_schemas import BreakerPolicy, Circuit
from tests.support.fleet import COUNTING, OnePolicy, World, at

N = 3
SEVERAL = COUNTING.model_copy(
    update={"permitted_number_of_calls_in_half_open_state": N, "success_threshold_to_close": N}
)


def _opened(policy: BreakerPolicy = SEVERAL) -> World:
    world = World(policies=OnePolicy(policy))
    for _ in range(3):
        world.say("error")
    return world


def _ask(world: World, *names: str, seconds: float = 10) -> Circuit:
    for name in names:
        world.say("rejected", seconds=seconds, probe_requested=True, emitter_id=name, generation=1)
    world.run_all()
    return world.records()[-1]


def _answer(world: World, record: Circuit, name: str, status: str = "success", seconds: float = 11) -> Circuit:
    (lease,) = [lease for lease in record.leases if lease.emitter_id == name]
    world.say(status, seconds=seconds, generation=record.generation, lease_id=lease.lease_id, emitter_id=name)
    world.run_all()
    return world.records()[-1]


def test_a_record_says_how_many_probes_may_still_be_asked_for():
    world = _opened()
    assert [_ask(world, name).permits_left for name in ("a", "b", "c", "d")] == [2, 1, 0, 0]
    assert {lease.emitter_id for lease in world.records()[-1].leases} == {"a", "b", "c"}


@pytest.mark.parametrize("state", ["open", "closed"])
def test_only_a_half_open_circuit_has_permits(state):
    world = _opened()
    world.run_all()
    if state == "closed":
        record = _ask(world, "a", "b", "c")
        for name in ("a", "b", "c"):
            _answer(world, record, name)
    assert (world.records()[-1].state, world.records()[-1].permits_left) == (state, 0)


def test_exactly_n_probes_close_the_circuit_and_no_process_gets_one_more():
    world = _opened()
    record = _ask(world, "a", "b", "c", "d", "e")
    for name in ("a", "b"):
        _answer(world, record, name)
        _ask(world, "d", "e")
    assert world.counted.leases == N
    assert _answer(world, record, "c").state == "closed"


def test_an_undecided_probe_is_published_so_that_its_process_may_probe_again():
    """Untold, a lone process would hold its used lease until the stay ends, and the circuit would never close."""
    world = _opened(SEVERAL.model_copy(update={"permitted_number_of_calls_in_half_open_state": 1}))
    for number in range(N):
        record = _ask(world, "a", seconds=10 + number)
        assert len(record.leases) == 1
        record = _answer(world, record, "a", seconds=10.5 + number)
        if number < N - 1:
            assert (record.state, record.leases, record.permits_left) == ("half_open", (), 1)
            assert record.cause is not None
            assert (record.cause.rule, record.cause.actor) == ("probe_returned", "a")
    assert record.state == "closed"


@pytest.mark.parametrize(
    ("status", "error_class"), [("cancelled", "cancelled"), ("cancelled", None), ("error", "cancelled")]
)
def test_an_ignored_probe_gives_its_permit_back_to_all_processes(status, error_class):
    world = _opened()
    record = _ask(world, "a", "b", "c")
    (lease,) = [lease for lease in record.leases if lease.emitter_id == "b"]
    world.say(status, seconds=11, error_class=error_class, generation=2, lease_id=lease.lease_id, emitter_id="b")
    world.run_all()
    record = world.records()[-1]
    assert (record.permits_left, len(record.leases)) == (1, 2)
    assert {lease.emitter_id for lease in _ask(world, "d").leases} == {"a", "c", "d"}


def test_a_call_without_a_guard_that_began_before_the_end_of_the_wait_is_no_probe_however_late_it_arrives():
    world = _opened(COUNTING)
    world.say(seconds=15, recorded_at=at(9))
    world.say(seconds=15, recorded_at=at(12), execution_time_ms=3_000)
    world.run_all()
    assert [record.state for record in world.records()] == ["open"]
    world.say(seconds=15, recorded_at=at(12), execution_time_ms=1_000)
    world.run_all()
    assert world.records()[-1].state == "closed"


@pytest.mark.slow
def test_versions_rise_through_a_half_open_stay_and_a_replay_publishes_the_same():
    worlds = [_opened(), _opened()]
    for world, batch in zip(worlds, (1000, 1), strict=True):
        for name in ("a", "b", "c", "d"):
            world.say("rejected", seconds=10, probe_requested=True, emitter_id=name, generation=1)
        world.run_all(batch=batch)
        record = world.records()[-1]
        for lease in record.leases:
            world.say("success", seconds=11, generation=2, lease_id=lease.lease_id, emitter_id=lease.emitter_id)
        world.run_all(batch=batch)
    assert worlds[0].circuits == worlds[1].circuits
    versions = [record.version for record in worlds[0].records()]
    assert versions == list(range(1, len(versions) + 1))
