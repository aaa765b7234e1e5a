"""Submitted records go in batches of one tool, and each gets its own answer."""

from __future__ import annotations

import pytest

from switchgear.emitter.record_batch import STOPPED, singles
from switchgear.emitter.submission import Submission

RECORDS = [("a", b"0"), ("b", b"1"), ("a", b"2"), ("a", b"3"), ("b", b"4")]


@pytest.fixture
async def submission():
    return Submission(RECORDS)


async def test_records_go_in_batches_of_one_tool_in_their_order(submission):
    batches = submission.batches(0, 5)
    assert [(each.tool, each.values) for each in batches] == [("a", [b"0", b"2", b"3"]), ("b", [b"1", b"4"])]


async def test_only_as_many_records_go_as_there_is_room_for(submission):
    assert [each.values for each in submission.batches(0, 2)] == [[b"0"], [b"1"]]
    assert [each.values for each in submission.batches(2, 9)] == [[b"2", b"3"], [b"4"]]


async def test_it_is_done_when_every_record_has_its_answer(submission):
    first, second = submission.batches(0, 5)
    first.answer(None)
    assert not submission.done.done()
    second.answer(None)
    assert submission.done.done()
    assert (submission.receipt.acknowledged, submission.receipt.refused) == (5, [])


async def test_a_refused_record_of_a_batch_is_named_by_its_place(submission):
    for number, record in enumerate(singles(submission.batches(0, 5))):
        record.answer("too large" if number == 1 else None)
    assert (submission.receipt.acknowledged, submission.receipt.refused) == (4, [(2, "too large")])


async def test_records_of_an_emitter_that_stopped_are_not_acknowledged(submission):
    for batch in submission.batches(0, 5):
        batch.answer(STOPPED)
    assert submission.done.done()
    assert submission.receipt.acknowledged == 0
