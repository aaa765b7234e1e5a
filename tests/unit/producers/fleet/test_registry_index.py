from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.fleet.registry import CircuitIndex

pytestmark = pytest.mark.slow

names = st.lists(st.text(max_size=5), max_size=30)


def _index(given_names: list[str]) -> CircuitIndex:
    index = CircuitIndex()
    for name in given_names:
        index.add(name)
    return index


@given(names, names)
def test_index_holds_each_name_once_and_forgets_discarded_names(added, discarded):
    index = _index(added)
    for name in discarded:
        index.discard(name)
    assert sorted(index) == sorted(set(added) - set(discarded))
    assert len(index) == len(set(added) - set(discarded))


@given(names, st.randoms(), st.text(max_size=5), st.integers(1, 40))
def test_names_after_another_depend_on_the_names_alone_and_come_once(added, chance, name, count):
    shuffled = list(added)
    chance.shuffle(shuffled)
    found = _index(added).after(name, count)
    assert found == _index(shuffled).after(name, count)
    assert len(found) == len(set(found)) == min(count, len(set(added)))


def test_look_at_names_goes_on_at_the_start_where_the_index_ends():
    index = _index(["a", "b", "c"])
    order = list(index)
    assert index.after(order[2], 2) == [order[2], order[0]]
