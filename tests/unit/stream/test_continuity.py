from __future__ import annotations

from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from switchgear_stream.continuity import Continuity, Verdict

HERE = TP("t.executions", 0)
THERE = TP("t.executions", 1)


def test_batches_that_follow_each_other_are_folded():
    continuity = Continuity()
    continuity.expect(HERE, 0)
    for first in (0, 10, 20):
        assert continuity.judge(HERE, first) is Verdict.FOLD
        continuity.done(HERE, first + 9)
    assert continuity.position(HERE) == 30


def test_a_batch_that_comes_again_is_folded_and_moves_nothing_back():
    continuity = Continuity()
    continuity.expect(HERE, 100)
    assert continuity.judge(HERE, 50) is Verdict.FOLD
    continuity.done(HERE, 59)
    assert continuity.position(HERE) == 100


def test_missing_records_are_read_again_and_what_was_fetched_before_is_dropped():
    continuity = Continuity()
    continuity.expect(HERE, 0)
    assert continuity.judge(HERE, 10) is Verdict.REWIND
    assert continuity.judge(HERE, 20) is Verdict.DROP
    assert continuity.judge(HERE, 0) is Verdict.FOLD
    continuity.done(HERE, 9)
    assert continuity.judge(HERE, 10) is Verdict.FOLD


def test_a_gap_of_the_log_itself_is_accepted_after_one_rewind():
    continuity = Continuity()
    continuity.expect(HERE, 5)
    assert continuity.judge(HERE, 7) is Verdict.REWIND
    assert continuity.judge(HERE, 7) is Verdict.FOLD
    continuity.done(HERE, 8)
    assert continuity.judge(HERE, 10) is Verdict.REWIND


def test_partitions_do_not_mix():
    continuity = Continuity()
    continuity.expect(HERE, 0)
    continuity.expect(THERE, 0)
    assert continuity.judge(HERE, 10) is Verdict.REWIND
    assert continuity.judge(THERE, 0) is Verdict.FOLD


def test_after_a_rebalance_a_partition_starts_where_it_is_told():
    continuity = Continuity()
    continuity.expect(HERE, 50)
    continuity.expect(HERE, 0)
    assert continuity.position(HERE) == 50
    continuity.forget()
    assert continuity.position(HERE) is None
    assert continuity.judge(HERE, 7) is Verdict.FOLD


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.sets(st.integers(0, 11)))
def test_whatever_is_lost_on_the_way_every_record_is_folded(sizes, lost):
    """A reader with a queue: a rewind reads on from the wanted offset, a lost batch never reaches the judge."""
    batches, start = [], 0
    for size in sizes:
        batches.append((start, start + size - 1))
        start += size
    continuity = Continuity()
    continuity.expect(HERE, 0)
    folded: set[int] = set()
    queue = [batch for number, batch in enumerate(batches) if number not in lost]
    for _ in range(1000):
        if not queue:
            if len(folded) == start:
                break
            queue = batches[-1:] if folded != set(range(start)) else []
        first, last = queue.pop(0)
        verdict = continuity.judge(HERE, first)
        if verdict is Verdict.FOLD:
            folded.update(range(first, last + 1))
            continuity.done(HERE, last)
        elif verdict is Verdict.REWIND:
            wanted = continuity.position(HERE)
            queue += [batch for batch in batches if batch[1] >= wanted]
    assert folded == set(range(start))
