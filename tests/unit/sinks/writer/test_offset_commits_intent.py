"""The intent: named in the commit, read back by whoever comes next."""

from __future__ import annotations

import pytest

from switchgear_sinks.writer.offset_commits import NOTHING, Committed, Intent
from tests.support.table import table


def test_intent_is_read_back_from_commit_metadata() -> None:
    intent = Intent(100, 199, 1_795_262_400_000)
    assert Intent.parse(intent.metadata()) == intent


def test_metadata_of_an_intent_names_the_range() -> None:
    assert Intent(100, 199, 5).metadata() == "pending:100-199:5"


@table("metadata", ["", None, "pending:", "pending:1", "pending:a-b", "done:1-2", "pending:1-2:x", "x pending:1-2"])
def test_other_metadata_is_not_an_intent(metadata: str | None) -> None:
    assert Intent.parse(metadata) is None


def test_intent_without_a_stamp_is_read() -> None:
    assert Intent.parse("pending:7-9") == Intent(7, 9, 0)


def test_intents_of_the_same_range_have_the_same_token() -> None:
    assert Intent(1, 2, 3).token("t", 0) == Intent(1, 2, 3).token("t", 0)


@pytest.mark.parametrize(
    ("intent", "topic", "partition"),
    [(Intent(0, 2, 3), "t", 0), (Intent(1, 3, 3), "t", 0), (Intent(1, 2, 3), "u", 0), (Intent(1, 2, 3), "t", 1)],
)
def test_token_depends_on_range_topic_and_partition(intent: Intent, topic: str, partition: int) -> None:
    assert intent.token(topic, partition) != Intent(1, 2, 3).token("t", 0)


def test_same_offsets_of_a_recreated_topic_have_another_token() -> None:
    before, after = Intent(0, 99, 1_000), Intent(0, 99, 2_000)
    assert before.token("executions", 0) != after.token("executions", 0)


@table(
    "committed",
    [
        Committed(5),
        Committed(5, Intent(5, 9, 1_795_262_400_000)),
        Committed(5, stored=range(7, 20)),
        Committed(5, Intent(5, 9, 3), range(7, 20)),
    ],
)
def test_a_commit_is_read_back_from_its_metadata(committed: Committed) -> None:
    assert Committed.parse(committed.offset, committed.metadata()) == committed


def test_a_commit_past_what_the_store_has_no_longer_says_what_that_was() -> None:
    assert Committed(20, stored=range(7, 20)).metadata() == ""


@table("metadata", ["", None, "stored:", "stored:7", "stored:a-b", "stored:1-2:3", "mine"])
def test_other_metadata_says_nothing_of_the_store(metadata: str | None) -> None:
    assert Committed.parse(5, metadata) == Committed(5, None, NOTHING)
