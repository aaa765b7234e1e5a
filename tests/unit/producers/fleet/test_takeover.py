from __future__ import annotations

import json

import msgspec

from switchgear.fleet import Known, PublishedCircuit, Row, read_published
from switchgear_schemas import Circuit
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import COUNTING, World
from tests.support.table import table


def _opened() -> World:
    world = World()
    for _ in range(3):
        world.say("error")
    world.run_all()
    return world


def test_a_record_lost_in_a_crash_is_made_up_byte_for_byte():
    calm, rough = _opened(), World()
    for _ in range(3):
        rough.say("error")
    rough.run(crash="after_rows")
    rough.run_all()
    assert rough.circuits == calm.circuits


def test_nothing_is_published_again_where_nothing_was_lost():
    world = _opened()
    world.start()
    assert len(world.circuits) == 1


def test_the_new_owner_continues_above_the_highest_version():
    world = _opened()
    above = msgspec.structs.replace(Circuit.from_bytes(world.circuits[0]), version=41, state="closed")
    world.circuits.append(above.to_bytes())
    world.start()
    assert (world.records()[-1].version, world.records()[-1].state) == (42, "open")


def test_the_new_owner_continues_in_a_generation_above_that_of_a_paused_former_owner():
    world = _opened()
    zombie = Circuit.from_bytes(world.circuits[0])
    zombie = msgspec.structs.replace(zombie, version=2, generation=2, state="half_open")
    world.circuits.append(zombie.to_bytes())
    world.start()
    last = world.records()[-1]
    assert (last.version, last.generation, last.state) == (3, 3, "open")
    world.start()
    assert world.records()[-1] == last


def test_a_published_circuit_without_a_row_is_closed_so_that_readers_stop_refusing():
    world = _opened()
    world.rows.clear()
    world.start()
    last = world.records()[-1]
    assert (last.state, last.version, last.generation) == ("closed", 2, 2)
    assert last.cause is not None
    assert last.cause.rule == "state_lost"


def test_a_changed_policy_file_is_published_at_the_next_start():
    world = _opened()
    world.policies.policy = COUNTING.model_copy(update={"fallback": ("backup",)})
    world.start()
    assert world.records()[-1].fallback == ("backup",)
    world.start()
    assert len(world.records()) == 2


def test_fences_of_a_topic_that_was_created_again_are_lowered():
    world = _opened()
    assert world.row().fences
    world.log.clear()
    world.committed.clear()
    world.start()
    world.say()
    world.run_all()
    assert world.row().total_calls == 4


def test_take_over_returns_the_states_that_are_not_closed():
    world = _opened()
    assert world.fold.take_over(Known({})) == {"search": "open"}


def test_skips_what_is_not_a_record():
    assert read_published(None) is None
    assert read_published(b"") is None
    assert read_published(b'{"circuit_id": 1}') is None
    found = read_published(_opened().circuits[0])
    assert isinstance(found, PublishedCircuit)
    assert (found.circuit_id, found.version, found.state) == ("search", 1, "open")


@table(
    "fields",
    [
        {"version": -1},
        {"version": 2**63},
        {"generation": -5},
        {"generation": 10**30},
        {"state": "ajar"},
        {"changed_at": "0001-01-01T00:00:00Z"},
        {"changed_at": "9999-12-31T23:59:59Z"},
        {"changed_at": "2026-01-01T00:00:00"},
        {"tool_name": "x" * 257, "circuit_id": "x" * 257},
        {"circuit_id": "other"},
        {"scope": "user"},
        {"circuit_id": "search|user=" + "x" * 5_000, "scope": "user"},
        {"circuit_id": ""},
    ],
)
def test_skips_a_record_that_no_owner_can_have_published(fields):
    record = json.loads(_opened().circuits[0])
    assert read_published(json.dumps(record).encode()) is not None
    assert read_published(json.dumps(record | fields).encode()) is None


def test_deep_nesting_and_bytes_that_are_not_text_are_not_records():
    assert read_published(b"[" * 100_000) is None
    assert read_published(b'{"circuit_id":"\xff"}') is None


def test_a_row_whose_breaker_can_not_be_restored_starts_fresh_above_the_published_version():
    world = _opened()
    before = world.row()
    world.rows[b"search"] = Row(
        circuit_id="search", tool_name="search", fences=before.fences, applied=before.applied, version=before.version
    ).encode()  # a row whose breaker is lost
    world.start()
    last = world.records()[-1]
    assert (last.state, last.version, last.cause.rule) == ("closed", before.version + 1, "state_lost")
    assert world.row().fences == before.fences
    world.committed.clear()
    world.run_all()
    assert world.counted.duplicates == len(world.log["t.executions", owner_partition("search", 4)])
