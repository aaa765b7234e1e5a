from __future__ import annotations

from switchgear_schemas.headers import REKEYED
from switchgear_schemas.partitioner import owner_partition
from tests.support.fleet import EXECUTIONS, World, event

OWNER = owner_partition("search", 4)
WRONG = (OWNER + 1) % 4


def test_an_event_in_the_wrong_partition_reaches_its_owner_and_is_counted_there():
    world = World()
    world.append(event(), partition=WRONG, headers=[("traceparent", b"00")])
    world.run_all()
    (copy,) = world.log[EXECUTIONS, OWNER]
    assert copy.key == b"search"
    assert copy.headers == [(REKEYED, b"%d:0" % WRONG)]
    assert world.row().total_calls == 1
    assert world.row().fences == {WRONG: 0}


def test_the_copy_is_fenced_by_the_originals_offset():
    world = World()
    world.append(event(), partition=WRONG)
    world.run(crash="after_outputs")
    world.run_all()
    assert len(world.log[EXECUTIONS, OWNER]) == 2
    assert world.row().total_calls == 1
    assert world.counted.duplicates == 1


def test_originals_and_copies_of_one_tool_have_fences_of_their_own():
    world = World()
    for _ in range(3):
        world.append(event(), partition=WRONG)
    world.say()
    world.run_all()
    assert world.row().total_calls == 4
    assert world.row().fences[WRONG] == 2


def test_an_event_in_a_partition_that_was_added_is_counted_once_by_its_owner():
    world = World(added=4)
    world.append(event(), partition=OWNER + 4)
    world.run(crash="after_outputs")
    world.run_all()
    assert not world.dead
    assert world.row().total_calls == 1
    assert world.row().fences == {OWNER + 4: 0}


def test_a_copy_from_a_partition_that_no_topic_has_is_a_dead_letter():
    world = World(added=1)
    world.append(event(), headers=[(REKEYED, b"5:0")])
    world.run_all()
    (letter,) = world.dead
    assert REKEYED in letter.reason


def test_a_null_key_in_the_right_partition_is_counted_where_it_is():
    world = World()
    world.append(event()).key = None
    world.run_all()
    assert world.row().total_calls == 1
    assert len(world.log[EXECUTIONS, OWNER]) == 1


def test_a_copy_in_the_wrong_partition_is_a_dead_letter_and_not_sent_on():
    world = World()
    world.append(event(), partition=WRONG, headers=[(REKEYED, b"3:77")])
    world.run_all()
    (letter,) = world.dead
    assert (letter.partition, letter.offset, letter.value) == (WRONG, 0, event())
    assert "family_pattern" in letter.reason
    assert not world.log[EXECUTIONS, OWNER]
    assert not world.rows
