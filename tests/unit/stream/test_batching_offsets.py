from __future__ import annotations

import pytest
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from switchgear_stream.batching import BatchAction, OffsetSequence

HERE = TP("t.executions", 0)
THERE = TP("t.executions", 1)


def test_batches_that_follow_each_other_are_folded():
    offsets = OffsetSequence()
    offsets.start(HERE, 0)
    for first in (0, 10, 20):
        assert offsets.action(HERE, first) is BatchAction.FOLD
        offsets.done(HERE, first + 9)
    assert offsets.position(HERE) == 30


def test_a_repeated_batch_is_folded_and_does_not_move_the_position_back():
    offsets = OffsetSequence()
    offsets.start(HERE, 100)
    assert offsets.action(HERE, 50) is BatchAction.FOLD
    offsets.done(HERE, 59)
    assert offsets.position(HERE) == 100


def test_missing_records_are_read_again_and_batches_fetched_before_are_dropped():
    offsets = OffsetSequence()
    offsets.start(HERE, 0)
    assert offsets.action(HERE, 10) is BatchAction.REWIND
    assert offsets.action(HERE, 20) is BatchAction.DROP
    assert offsets.action(HERE, 0) is BatchAction.FOLD
    offsets.done(HERE, 9)
    assert offsets.action(HERE, 10) is BatchAction.FOLD


def test_a_gap_of_the_log_itself_is_accepted_after_one_rewind():
    offsets = OffsetSequence()
    offsets.start(HERE, 5)
    assert offsets.action(HERE, 7) is BatchAction.REWIND
    assert offsets.action(HERE, 7) is BatchAction.FOLD
    offsets.done(HERE, 8)
    assert offsets.action(HERE, 10) is BatchAction.REWIND


def test_each_partition_has_its_own_sequence_of_offsets():
    offsets = OffsetSequence()
    offsets.start(HERE, 0)
    offsets.start(THERE, 0)
    assert offsets.action(HERE, 10) is BatchAction.REWIND
    assert offsets.action(THERE, 0) is BatchAction.FOLD


def test_a_partition_starts_again_at_the_given_offset_after_a_rebalance():
    offsets = OffsetSequence()
    offsets.start(HERE, 50)
    offsets.start(HERE, 0)
    assert offsets.position(HERE) == 50
    offsets.forget()
    assert offsets.position(HERE) is None
    assert offsets.action(HERE, 7) is BatchAction.FOLD


@pytest.mark.slow
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.sets(st.integers(0, 11)))
def test_every_record_is_folded_even_if_batches_get_lost(sizes, lost):
    """A reader with a queue: a rewind reads on from the wanted offset, a lost batch never reaches the judge."""
    batches, start = [], 0
    for size in sizes:
        batches.append((start, start + size - 1))
        start += size
    offsets = OffsetSequence()
    offsets.start(HERE, 0)
    folded: set[int] = set()
    queue = [batch for number, batch in enumerate(batches) if number not in lost]
    for _ in range(1000):
        if not queue:
            if len(folded) == start:
                break
            queue = batches[-1:] if folded != set(range(start)) else []
        first, last = queue.pop(0)
        action = offsets.action(HERE, first)
        if action is BatchAction.FOLD:
            folded.update(range(first, last + 1))
            offsets.done(HERE, last)
        elif action is BatchAction.REWIND:
            wanted = offsets.position(HERE)
            queue += [batch for batch in batches if batch[1] >= wanted]
    assert folded == set(range(start))
