"""A circuit that retired and comes back: readers take the new circuit for the newer one, whatever they missed."""

from __future__ import annotations

from datetime import UTC, datetime

from switchgear.fleet import Known, PublishedCircuit
from switchgear.fleet.registry import Limits
from switchgear.follower.table import CircuitTable
from switchgear_schemas import Circuit
from tests.support.fleet import COUNTING, START_MS, OnePolicy, World

SESSIONS = COUNTING.model_copy(update={"scope": "session"})
ONE = "search|session=s1"
AT = datetime.fromtimestamp(START_MS / 1000, UTC)


def _say(world: World, session: str, status: str = "success", *, hours: float = 0, **fields: object) -> None:
    world.say(status, session_id=session, seconds=hours * 3600, **fields)


def _one_life() -> tuple[list[Circuit], World]:
    """The circuit of a session that opened, closed, and made room for another's: its records end with generation 3."""
    world = World(policies=OnePolicy(SESSIONS), limits=Limits(scoped=1))
    for _ in range(3):
        _say(world, "s1", "error")
    _say(world, "s1", "rejected", probe_requested=True, emitter_id="a", hours=0.01)
    world.run_all()
    half_open = world.records(ONE)[-1]
    (lease,) = half_open.leases
    _say(world, "s1", generation=half_open.generation, lease_id=lease.lease_id, emitter_id="a", hours=0.01)
    _say(world, "s2", hours=40)
    world.run_all()
    assert ONE in world.buried
    return world.records(ONE), world


def _two_lives() -> tuple[list[Circuit], list[Circuit]]:
    first, world = _one_life()
    for _ in range(3):
        _say(world, "s1", "error", hours=80)
    world.run_all()
    return first, world.records(ONE)[len(first) :]


def _take(table: CircuitTable, *records: Circuit) -> None:
    for record in records:
        table.apply(record.circuit_id.encode(), record.to_bytes())


def test_a_reader_that_missed_the_tombstone_takes_the_second_life_though_its_generation_is_lower():
    first, second = _two_lives()
    assert (first[-1].generation, second[0].generation) == (3, 1)
    table = CircuitTable()
    _take(table, *first, *second)
    assert (table.views[ONE].state, table.views[ONE].version) == ("open", second[-1].version)


def test_a_reader_drops_the_first_life_after_the_second_began():
    first, second = _two_lives()
    table = CircuitTable()
    _take(table, *second, *first)
    assert (table.views[ONE].state, table.views[ONE].version) == ("open", second[-1].version)


def test_a_call_that_was_let_through_in_the_first_life_counts_in_the_second():
    """Its generation is higher than the new circuit's, so the result is not one of an older state."""
    _, world = _one_life()
    _say(world, "s1", "error", hours=80, generation=3)
    world.run_all()
    assert world.row(ONE).total_failed == 1


def test_a_process_that_asks_with_an_outdated_record_gets_the_present_one():
    """A zombie's record past the tombstone: without an answer its readers refuse until they take the owner for silent."""
    first, world = _one_life()
    table = CircuitTable()
    _take(table, first[0])
    assert not table.views[ONE].passes
    _say(world, "s1", "rejected", probe_requested=True, emitter_id="b", generation=first[0].generation, hours=80)
    world.run_all()
    record = world.records(ONE)[-1]
    assert (record.state, record.version > first[-1].version) == ("closed", True)
    _take(table, record)
    assert table.views[ONE].passes
    before = len(world.circuits)
    _say(world, "s1", "rejected", probe_requested=True, emitter_id="c", generation=0, hours=80)
    world.run_all()
    assert len(world.circuits) == before, "published once"


def test_a_published_tool_without_a_row_continues_above_its_version_even_if_it_was_closed():
    world = World()
    last = PublishedCircuit("search", "search", "closed", 7, 4, AT)
    world.fold.take_over(Known({"search": last}))
    world.write(world.fold.take())
    for _ in range(3):
        world.say("error", generation=4)
    world.run_all()
    assert [(record.state, record.version) for record in world.records()] == [("closed", 8), ("open", 9)]
    assert world.records()[-1].generation > last.generation
