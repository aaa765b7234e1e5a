"""The owner of a family's partition finds the rows of its tools where they were before."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from switchgear.breaker import Breaker
from switchgear.fleet import Known, PublishedCircuit, Row
from switchgear.fleet.moved_rows import MovedRows
from switchgear.fleet.rows import Placement, RowError, check_row
from switchgear_schemas.headers import MOVED, REKEYED
from switchgear_schemas.partitioner import owner_partition, partition_of
from switchgear_schemas.policy import FLEET_DEFAULT
from tests.support.fleet import EXECUTIONS, World, event

N = 12
TOOL = "mcp:github:search"
THERE, HOME = owner_partition(TOOL, N), partition_of(TOOL, N)


def row(applied: int = 1, tool_name: str = TOOL, **fields) -> Row:
    circuit_id = fields.pop("circuit_id", tool_name)
    breaker = Breaker(circuit_id, FLEET_DEFAULT, 0.0).snapshot()
    return Row(circuit_id=circuit_id, tool_name=tool_name, applied=applied, breaker=breaker, **fields)


def moved(homes=(HOME,), pattern="mcp:*:*") -> MovedRows:
    return MovedRows(homes, partitions=N, family_pattern=pattern)


def test_a_row_moves_to_the_partition_of_the_family_with_its_fences():
    found = moved()
    made = row(fences={THERE: 7, HOME: 3}, total_calls=9)
    found.add(THERE, made.key, made.encode())
    (data,) = found.rows({})[HOME].values()
    after = Row.decode(data)
    assert (after.total_calls, after.fences, after.moved) == (9, made.fences, made.fences)
    assert found.left() == {THERE: [made.key]}


def test_the_circuits_of_users_move_with_their_tool():
    found = moved()
    made = row(circuit_id=f"{TOOL}|user=ana", scope="user")
    found.add(THERE, made.key, made.encode())
    assert list(found.rows({})[HOME]) == [made.key]


def test_rows_of_other_partitions_and_rows_in_their_place_stay():
    found = moved(homes=[(HOME + 1) % N])
    made = row()
    found.add(THERE, made.key, made.encode())
    plain = row(tool_name="search")
    found.add(owner_partition("search", N), plain.key, plain.encode())
    assert found.rows({}) == found.left() == {}


def test_the_newest_row_moves_and_all_copies_leave():
    found = moved()
    elsewhere = owner_partition("mcp", N)
    for partition, applied in ((THERE, 5), (elsewhere, 8), (THERE, 4)):
        made = row(applied)
        found.add(partition, made.key, made.encode())
    (data,) = found.rows({})[HOME].values()
    assert Row.decode(data).applied == 8
    assert found.left() == {THERE: [made.key], elsewhere: [made.key]}


def test_a_row_that_its_owner_has_already_is_only_removed_elsewhere():
    found, made = moved(), row(5)
    found.add(THERE, made.key, made.encode())
    assert found.rows({made.key: row(5, fences={HOME: 9}).encode()}) == {}
    assert found.left() == {THERE: [made.key]}


def test_a_row_that_was_removed_is_not_found():
    found, made = moved(), row()
    found.add(THERE, made.key, made.encode())
    found.add(THERE, made.key, None)
    assert found.rows({}) == found.left() == {}


def test_records_that_are_no_rows_are_left_to_the_owner_of_their_partition():
    found, made = moved(), row()
    found.add(THERE, made.key, b"nonsense")
    found.add((THERE + 1) % N if (THERE + 1) % N != HOME else (THERE + 2) % N, made.key, made.encode())
    found.add(THERE, b"\xff3", b"x")
    assert found.rows({}) == {}


def test_another_pattern_moves_rows_back():
    found, made = moved(homes=[THERE], pattern=""), row()
    found.add(HOME, made.key, made.encode())
    assert list(found.rows({})) == [THERE]


def test_a_row_where_a_tool_belonged_before_is_no_error_and_does_not_belong_there():
    made = row()
    assert check_row(made.key, made.encode(), HOME, N)
    assert not check_row(made.key, made.encode(), THERE, N)
    assert check_row(made.key, made.encode(), THERE, N, "")
    nobodys = next(p for p in range(N) if p not in {owner_partition(k, N) for k in ("mcp", "mcp:github", TOOL)})
    with pytest.raises(RowError, match="another partition"):
        check_row(made.key, made.encode(), nobodys, N)


def test_the_mark_of_a_complete_partition_is_checked_like_other_rows():
    made = Placement(partition=3, pattern="mcp:*:*", applied=1, read_from={0: 7})
    assert check_row(made.key, made.encode(), 3, N)
    assert Placement.decode(made.encode()) == made
    with pytest.raises(RowError):
        check_row(made.key, made.encode(), 4, N)


# ---- copies that wait where their tool belonged before


@pytest.fixture
def world() -> World:
    """A worker that has moved the rows, when the group read the partition HOME from offset 5 on."""
    world = World(partitions=N)
    placement = Placement(partition=HOME, pattern="mcp:*:*", read_from={HOME: 5})
    world.rows[placement.key] = placement.encode()
    world.fold.forget()
    return world


def copy(world: World, origin: int) -> None:
    """Append a copy of a record in HOME to the partition that owned the tool then."""
    world.append(event(TOOL), partition=THERE, headers=[(REKEYED, b"%d:%d" % (HOME, origin))])


def total(world: World, circuit_id: str = TOOL) -> int:
    return world.row(circuit_id).total_calls


def test_a_copy_counts_although_a_later_record_came_by_the_shorter_way(world):
    world.log[EXECUTIONS, HOME].extend([None] * 5)
    world.committed[EXECUTIONS, HOME] = 5
    world.append(event(TOOL), tool_name=TOOL)  # offset 5
    world.run_all()
    copy(world, 3)
    copy(world, 4)
    world.run_all()
    assert (total(world), total(world, "mcp:github|family")) == (3, 3)


def test_a_copy_of_a_record_that_is_read_again_does_not_count(world):
    world.log[EXECUTIONS, HOME].extend([None] * 5)
    world.committed[EXECUTIONS, HOME] = 5
    copy(world, 5)
    world.append(event(TOOL), tool_name=TOOL)
    world.run_all()
    assert (total(world), total(world, "mcp:github|family")) == (1, 1)


def test_a_copy_that_the_former_owner_applied_does_not_count_again(world):
    made = row(3, fences={HOME: 3}, moved={HOME: 3}, total_calls=3)
    world.rows[made.key] = made.encode()
    copy(world, 3)
    copy(world, 4)
    world.run_all()
    assert total(world) == 4


def test_a_family_counts_copies_of_several_tools_whatever_the_order_in_which_they_arrive(world):
    other = next(name for name in (f"mcp:github:{number}" for number in range(99)) if owner_partition(name, N) > THERE)
    world.append(
        event(other), partition=owner_partition(other, N), headers=[(REKEYED, b"%d:1" % HOME)]
    )  # THERE is read first
    copy(world, 2)
    world.run_all()
    assert total(world, "mcp:github|family") == 2


def test_a_copy_sent_on_names_its_own_place_and_that_of_its_original(world):
    copy(world, 2)
    world.run()
    (sent,) = world.log[EXECUTIONS, HOME]
    assert sent.headers == [(REKEYED, b"%d:2" % HOME), (MOVED, b"%d:0" % THERE)]


# ---- the circuits topic


def known(version: int, state: str = "open", **fields) -> dict[str, PublishedCircuit]:
    made = world_record(version, state, **fields)
    return {made.circuit_id: made}


def world_record(version: int, state: str, circuit_id: str = TOOL, scope: str = "tool") -> PublishedCircuit:

    return PublishedCircuit(circuit_id, TOOL, state, version, 3, datetime(2026, 1, 1, tzinfo=UTC), scope)


def test_a_moved_circuit_is_published_again_where_it_belongs_now(world):
    made = row(record=b'{"old": true}', version=4)
    world.rows[made.key] = made.encode()
    world.fold.take_over(Known({}, elsewhere=known(4)))
    (published,) = world.fold.take().circuits
    assert (published.value, published.version) == (b'{"old": true}', 4)


def test_versions_go_on_above_a_record_in_the_former_partition(world):
    made = row(record=b"{}", version=4)
    world.rows[made.key] = made.encode()
    world.fold.take_over(Known(known(2), elsewhere=known(9)))
    published = world.fold.take().circuits
    assert published[0].version == 10


def test_a_circuit_without_a_row_is_closed_above_its_record_in_the_former_partition(world):
    world.fold.take_over(Known({}, elsewhere=known(9)))
    (published,) = world.fold.take().circuits
    assert (published.version, published.state) == (10, "closed")
