"""Tests of the dictionary with a bound."""

from switchgear.runtime.bounded_dict import BoundedDict


def filled(*keys: str, most: int = 2) -> BoundedDict[str, int]:
    found = BoundedDict[str, int](most)
    for number, key in enumerate(keys):
        found[key] = number
    return found


def test_a_new_entry_replaces_the_one_that_was_set_longest_ago():
    assert list(filled("a", "b", "c")) == ["b", "c"]


def test_an_entry_that_is_set_again_is_the_newest():
    assert list(filled("a", "b", "a", "c").items()) == [("a", 2), ("c", 3)]


def test_reading_an_entry_does_not_make_it_newer_but_moving_it_does():
    found = filled("a", "b")
    assert (found["a"], found.get("a")) == (0, 0)
    found["c"] = 2
    assert list(found) == ["b", "c"]
    found.move_to_end("b")
    found["d"] = 3
    assert list(found) == ["b", "d"]


def test_putting_an_entry_returns_the_one_that_had_to_make_room():
    found = filled("a", "b")
    assert found.put("b", 7) is None
    assert found.put("c", 8) == ("a", 0)


def test_every_way_of_adding_entries_is_bounded():
    found = filled("a", "b")
    assert found.setdefault("c", 5) == 5
    assert found.setdefault("c", 6) == 5
    found.update(d=6, e=7)
    found |= {"f": 8}
    assert list(found) == ["e", "f"]
