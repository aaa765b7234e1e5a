from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from switchgear.fleet.registry import CircuitIndex, Ring
from switchgear.fleet.rows import Row
from switchgear_schemas.partitioner import owner_partition

names = st.lists(st.text(max_size=5), max_size=30)


def _ring(given_names: list[str]) -> Ring:
    ring = Ring()
    for name in given_names:
        ring.add(name)
    return ring


@given(names, names)
def test_a_ring_holds_each_name_once_and_forgets_what_is_discarded(added, discarded):
    ring = _ring(added)
    for name in discarded:
        ring.discard(name)
    assert sorted(ring) == sorted(set(added) - set(discarded))
    assert len(ring) == len(set(added) - set(discarded))


@given(names, st.randoms(), st.text(max_size=5), st.integers(1, 40))
def test_the_names_after_another_depend_on_the_names_alone_and_come_once(added, chance, name, count):
    shuffled = list(added)
    chance.shuffle(shuffled)
    found = _ring(added).after(name, count)
    assert found == _ring(shuffled).after(name, count)
    assert len(found) == len(set(found)) == min(count, len(set(added)))


def test_looking_goes_on_at_the_start_where_the_ring_ends():
    ring = _ring(["a", "b", "c"])
    order = list(ring)
    assert ring.after(order[2], 2) == [order[2], order[0]]


def test_a_roster_knows_tools_by_partition_and_circuits_by_tool():
    rows = [
        Row(circuit_id="a", tool_name="a"),
        Row(circuit_id="a|user=u", tool_name="a", scope="user"),
        Row(circuit_id="b", tool_name="b"),
    ]
    roster = CircuitIndex(4)
    roster.fill(row.encode() for row in rows)
    assert "a" in roster.tools_beside("a")
    assert ("b" in roster.tools_beside("a")) == (owner_partition("a", 4) == owner_partition("b", 4))
    assert list(roster.scoped_of("a")) == ["a|user=u"]
    for row in rows:
        roster.discard(row)
    assert (len(roster.tools_beside("a")), len(roster.scoped_of("a"))) == (0, 0)
