"""The topics follow from the settings, and their configuration carries the promises."""

import pytest

from switchgear_schemas import TopicNames, topic_definitions
from switchgear_schemas.execution import MAX_EVENT_BYTES


def by_name(**options):
    names = TopicNames()
    return {topic.name: topic for topic in topic_definitions(names, **options)}


def test_topic_and_group_names_begin_with_the_prefix():
    names = TopicNames(prefix="prod.")
    assert [topic.name for topic in topic_definitions(names)] == [
        "prod.executions",
        "prod.circuits",
        "prod.commands",
        "prod.executions.dead",
        "prod.worker-circuits-changelog",
    ]


def test_every_topic_has_the_same_partitions_so_that_one_worker_owns_a_tool_in_all_of_them():
    assert {topic.partitions for topic in by_name(partitions=24).values()} == {24}


def test_executions_carry_the_brokers_clock():
    assert by_name()["switchgear.executions"].config["message.timestamp.type"] == "LogAppendTime"


def test_an_oversized_event_fits_the_topic_and_its_dead_letter_fits_too():
    topics = by_name()
    largest = int(topics["switchgear.executions"].config["max.message.bytes"])
    assert largest > 2 * MAX_EVENT_BYTES
    assert int(topics["switchgear.executions.dead"].config["max.message.bytes"]) > largest


@pytest.mark.parametrize("name", ["switchgear.circuits", "switchgear.worker-circuits-changelog"])
def test_state_is_compacted_and_never_deleted(name):
    assert by_name()[name].config["cleanup.policy"] == "compact"


def test_circuit_history_is_kept_for_a_week():
    assert by_name()["switchgear.circuits"].config["min.compaction.lag.ms"] == str(7 * 24 * 3_600_000)


@pytest.mark.parametrize(("replicas", "least"), [(1, None), (2, None), (3, "2")])
def test_three_replicas_need_two_in_sync(replicas, least):
    for topic in by_name(replication_factor=replicas).values():
        assert topic.config.get("min.insync.replicas") == least
