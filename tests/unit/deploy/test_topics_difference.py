"""What exists is compared with what is wanted, and every property that is not as wanted is named."""

import pytest

from switchgear_cli.topics import Difference, FoundTopic, differences
from switchgear_schemas.topics import TopicDefinition

WANTED = TopicDefinition(
    name="switchgear.dead",
    partitions=12,
    replication_factor=3,
    config={"cleanup.policy": "compact,delete", "retention.ms": "1000", "min.cleanable.dirty.ratio": "0.1"},
)


def found(**changes):
    config = {
        "cleanup.policy": "compact,delete",
        "retention.ms": "1000",
        "min.cleanable.dirty.ratio": "0.1",
        "segment.ms": "604800000",  # not in the settings
    }
    config |= changes.pop("config", {})
    return FoundTopic(
        **({"name": "switchgear.dead", "partitions": 12, "replication_factor": 3, "config": config} | changes)
    )


def test_a_topic_as_wanted_has_no_difference():
    assert differences(WANTED, found()) == ()


def test_partitions_and_replication_come_first():
    assert differences(WANTED, found(partitions=4, replication_factor=1, config={"retention.ms": "5"})) == (
        Difference("partitions", "12", "4"),
        Difference("replication_factor", "3", "1"),
        Difference("retention.ms", "1000", "5"),
    )


@pytest.mark.parametrize("value", ["delete,compact", "compact, delete"])
def test_the_order_of_a_list_makes_no_difference(value):
    assert differences(WANTED, found(config={"cleanup.policy": value})) == ()


@pytest.mark.parametrize("value", ["0.10", "1e-1"])
def test_the_spelling_of_a_number_makes_no_difference(value):
    assert differences(WANTED, found(config={"min.cleanable.dirty.ratio": value})) == ()


def test_a_missing_key_is_a_difference_and_says_so():
    assert differences(WANTED, found(config={"retention.ms": None})) == (
        Difference("retention.ms", "1000", "(not set)"),
    )


def test_a_part_of_a_list_is_a_difference():
    assert differences(WANTED, found(config={"cleanup.policy": "delete"})) == (
        Difference("cleanup.policy", "compact,delete", "delete"),
    )
