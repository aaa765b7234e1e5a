"""The ids of marked events: in the order of the partition, for two minutes, and within a bound."""

from __future__ import annotations

from switchgear_schemas import marked_ids
from switchgear_schemas.marked_ids import OVERTAKEN_S, MarkedIds

AT = 1_800_000_000_000


def test_marked_event_overtook_what_comes_after_it_and_nothing_before_it():
    found = MarkedIds()
    found.add(b"a", AT)
    assert found.overtook(b"a", AT)
    assert found.overtook(b"a", AT + 1)
    assert not found.overtook(b"a", AT - 1)
    assert not found.overtook(b"b", AT + 1)


def test_marked_events_are_forgotten_when_no_first_copy_can_arrive():
    found = MarkedIds()
    found.add(b"a", AT)
    found.add(b"b", AT + 1_000)
    assert found.any_at(AT + int(OVERTAKEN_S * 1000))
    assert found.any_at(AT + int(OVERTAKEN_S * 1000) + 500)
    assert not found.overtook(b"a", AT + 500)
    assert found.overtook(b"b", AT + 1_500)
    assert not found.any_at(AT + int(OVERTAKEN_S * 1000) + 1_001)


def test_oldest_marked_event_makes_room_for_the_newest(monkeypatch):
    monkeypatch.setattr(marked_ids, "MOST_MARKED", 2)
    found = MarkedIds()
    for number, name in enumerate((b"a", b"b", b"c")):
        found.add(name, AT + number)
    assert [found.overtook(name, AT + 9) for name in (b"a", b"b", b"c")] == [False, True, True]
