"""The intent: named in the commit, read back by whoever comes next."""

from __future__ import annotations

import pytest

from switchgear_sinks.writer.intents import MOST_RANGES, NOTHING, Committed, Intent, Range
from tests.support.table import table

METADATA_BYTES = 4096
"""Kafka's offset.metadata.max.bytes, by default."""
ONE = Intent((Range(3, 100, 199, 1_795_262_400_000),))
TWO = Intent((Range(0, 7, 7, 5), Range(3, 100, 199, -1)))


@table("intent", [ONE, TWO])
def test_intent_is_read_back_from_commit_metadata(intent: Intent) -> None:
    assert Intent.parse(intent.metadata()) == intent


def test_metadata_of_an_intent_names_the_range_of_each_partition() -> None:
    assert TWO.metadata() == "pending:0=7-7:5,3=100-199:-1"
    assert TWO.of(3) == Range(3, 100, 199, -1)
    assert TWO.of(1) is None


def test_order_of_the_ranges_does_not_matter() -> None:
    assert Intent.naming(reversed(TWO.ranges)).token("t") == TWO.token("t")


def test_metadata_of_the_largest_intent_fits_into_a_commit() -> None:
    most = 2**63 - 1
    largest = Intent(tuple(Range(2**31 - 1 - each, most - 2**31, most, most) for each in range(MOST_RANGES)))
    assert len(Committed(0, largest, range(most - 1, most)).metadata()) < METADATA_BYTES


@table(
    "metadata",
    [
        *("", None, "pending:", "pending:1", "pending:1-2:3", "pending:0=a-b:1", "done:0=1-2:3", "pending:0=1-2:x"),
        *("pending:0=1-2:3,", "x pending:0=1-2:3"),
    ],
)
def test_other_metadata_is_not_an_intent(metadata: str | None) -> None:
    assert Intent.parse(metadata) is None


def test_intents_of_the_same_ranges_have_the_same_token() -> None:
    assert Intent((Range(0, 1, 2, 3),)).token("t") == Intent((Range(0, 1, 2, 3),)).token("t")


@pytest.mark.parametrize(
    ("found", "topic"),
    [
        (Range(0, 0, 2, 3), "t"),
        (Range(0, 1, 3, 3), "t"),
        (Range(0, 1, 2, 3), "u"),
        (Range(1, 1, 2, 3), "t"),
        (Range(0, 1, 2, 4), "t"),
    ],
)
def test_token_depends_on_range_topic_partition_and_stamp(found: Range, topic: str) -> None:
    assert Intent((found,)).token(topic) != Intent((Range(0, 1, 2, 3),)).token("t")


def test_token_depends_on_every_range() -> None:
    assert TWO.token("t") != Intent(TWO.ranges[:1]).token("t")


def test_same_offsets_of_a_recreated_topic_have_another_token() -> None:
    before, after = Intent((Range(0, 0, 99, 1_000),)), Intent((Range(0, 0, 99, 2_000),))
    assert before.token("executions") != after.token("executions")


@table(
    "committed",
    [
        Committed(5),
        Committed(5, ONE),
        Committed(5, stored=range(7, 20)),
        Committed(5, TWO, range(7, 20)),
    ],
)
def test_a_commit_is_read_back_from_its_metadata(committed: Committed) -> None:
    assert Committed.parse(committed.offset, committed.metadata()) == committed


def test_a_commit_past_what_the_store_has_no_longer_says_what_that_was() -> None:
    assert Committed(20, stored=range(7, 20)).metadata() == ""


@table("metadata", ["", None, "stored:", "stored:7", "stored:a-b", "stored:1-2:3", "mine"])
def test_other_metadata_says_nothing_of_the_store(metadata: str | None) -> None:
    assert Committed.parse(5, metadata) == Committed(5, None, NOTHING)
