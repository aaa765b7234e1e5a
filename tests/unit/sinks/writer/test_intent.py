"""The intent: named in the commit, read back by whoever comes next."""

from __future__ import annotations

import pytest

from switchgear_sinks.writer.offset_commits import Intent


def test_an_intent_survives_the_way_through_commit_metadata() -> None:
    intent = Intent(100, 199, 1_795_262_400_000)
    assert Intent.parse(intent.metadata()) == intent


def test_the_metadata_names_the_range_in_words() -> None:
    assert Intent(100, 199, 5).metadata() == "pending:100-199:5"


@pytest.mark.parametrize(
    "metadata", ["", None, "pending:", "pending:1", "pending:a-b", "done:1-2", "pending:1-2:x", "x pending:1-2"]
)
def test_anything_else_in_the_metadata_is_no_intent(metadata: str | None) -> None:
    assert Intent.parse(metadata) is None


def test_an_intent_without_a_stamp_is_read_too() -> None:
    assert Intent.parse("pending:7-9") == Intent(7, 9, 0)


def test_the_same_range_has_the_same_token() -> None:
    assert Intent(1, 2, 3).token("t", 0) == Intent(1, 2, 3).token("t", 0)


@pytest.mark.parametrize(
    ("intent", "topic", "partition"),
    [(Intent(0, 2, 3), "t", 0), (Intent(1, 3, 3), "t", 0), (Intent(1, 2, 3), "u", 0), (Intent(1, 2, 3), "t", 1)],
)
def test_another_range_topic_or_partition_has_another_token(intent: Intent, topic: str, partition: int) -> None:
    assert intent.token(topic, partition) != Intent(1, 2, 3).token("t", 0)


def test_the_same_offsets_of_a_topic_made_anew_have_another_token() -> None:
    before, after = Intent(0, 99, 1_000), Intent(0, 99, 2_000)
    assert before.token("executions", 0) != after.token("executions", 0)
