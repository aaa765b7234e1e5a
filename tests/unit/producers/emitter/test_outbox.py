"""The outbox before it is connected: what waits, how it is counted, and what is refused at once."""

from __future__ import annotations

import pytest

from switchgear.emitter.outbox import LARGEST_RECORD, Outbox
from switchgear.emitter.record import Record, Run, count, singles
from switchgear_schemas.connection import KafkaConnection


@pytest.fixture
def outbox():
    return Outbox(KafkaConnection("127.0.0.1:1"), "executions", limit=100, compression=None)


def test_a_run_counts_as_its_records(outbox):
    outbox.offer([Run("a", [b"1", b"2", b"3"]), Record("b", b"4")])
    assert outbox.pending == 4


def test_what_waits_is_told_record_by_record_in_order_and_is_the_same_when_asked_again(outbox):
    outbox.offer([Run("a", [b"1", b"2"]), Record("a", b"3"), Run("a", [b"4"])])
    found = outbox.unanswered()
    assert [(each.tool, each.value) for each in found] == [("a", b"1"), ("a", b"2"), ("a", b"3"), ("a", b"4")]
    found[1].marked = True
    again = outbox.unanswered()
    assert all(one is other for one, other in zip(found, again, strict=True))
    assert outbox.pending == 4


def test_of_a_run_too_only_the_record_that_is_too_large_is_refused(outbox):
    told = []
    large = b"x" * (LARGEST_RECORD + 1)
    outbox.offer([Run("a", [b"1", large, b"2"]), Record("a", large, told.append), Record("a", b"3")])
    assert [each.value for each in outbox.unanswered()] == [b"1", b"2", b"3"]
    assert (outbox.pending, outbox.failed) == (3, 2)
    assert "more than the" in told[0]


def test_singles_of_a_run_are_unmarked_and_nobody_waits_for_them():
    kept = Record("b", b"2", marked=True)
    first, second = singles([Run("a", [b"1"]), kept])
    assert (first.tool, first.value, first.key, first.marked, first.answer, first.place) == (
        "a", b"1", b"a", False, None, None,
    )  # fmt: skip
    assert second is kept
    assert count([Run("a", [b"1", b"2"]), kept]) == 3
