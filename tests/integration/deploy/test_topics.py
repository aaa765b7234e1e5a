"""`switchgear topics ensure` on a real broker: it creates what is missing and touches nothing that is there."""

import asyncio
import json
import time

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from switchgear_cli.local.ports import any_free_port
from switchgear_cli.topics import Difference, ensure_topics
from switchgear_schemas.errors import BrokerUnavailableError, SwitchgearError
from tests.support.processes import run


@pytest.fixture
def unmade(kafka):
    """Settings whose topics do not exist."""
    return kafka.settings()


async def create(settings, topic, partitions=4, **config):
    admin = AIOKafkaAdminClient(**settings.kafka.options())
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
    finally:
        await admin.close()


async def test_missing_topics_are_created_as_the_settings_want_them(unmade):
    reports = await ensure_topics(unmade)
    assert [(report.name, report.status) for report in reports] == [
        (topic.name, "created") for topic in unmade.topic_definitions()
    ]
    assert {report.status for report in await ensure_topics(unmade)} == {"ok"}


async def test_a_topic_that_differs_is_reported_and_left_as_it_is(unmade):
    await create(unmade, unmade.topics.executions, partitions=3, **{"retention.ms": "1000"})
    for _ in range(2):
        reports = {report.name: report for report in await ensure_topics(unmade)}
        found = reports[unmade.topics.executions]
        assert found.status == "differs"
        assert Difference("partitions", "4", "3") in found.differences
        assert Difference("retention.ms", "604800000", "1000") in found.differences
        assert Difference("message.timestamp.type", "LogAppendTime", "CreateTime") in found.differences
        assert "cleanup.policy" not in {difference.name for difference in found.differences}


async def test_topics_made_by_another_at_the_same_time_are_not_an_error(unmade):
    both = await asyncio.gather(ensure_topics(unmade), ensure_topics(unmade))
    for reports in zip(*both, strict=True):
        assert sorted(report.status for report in reports) in (["created", "ok"], ["created", "created"])


async def test_an_impossible_replication_names_the_topic_and_the_reason(kafka):
    settings = kafka.settings(topic_replication_factor=3)
    with pytest.raises(
        SwitchgearError, match=rf"refused to create the topic {settings.topics.executions}: .*eplication"
    ):
        await ensure_topics(settings)


async def test_a_broker_that_is_away_is_reported_within_the_limit(kafka):
    settings = kafka.settings(kafka_bootstrap_servers=f"127.0.0.1:{any_free_port()}")
    began = time.monotonic()
    with pytest.raises(BrokerUnavailableError, match=r"No Kafka broker answered at 127.* within 1 s"):
        await ensure_topics(settings, timeout_s=1)
    assert time.monotonic() - began < 5


def test_the_command_prints_a_table_and_json(unmade):
    first = run("topics", "ensure", settings=unmade)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("created") == len(unmade.topic_definitions())
    second = run("topics", "ensure", "--json", settings=unmade)
    assert second.returncode == 0
    assert {report["status"] for report in json.loads(second.stdout)} == {"ok"}


def test_a_topic_that_differs_is_printed_and_the_exit_code_is_0(unmade):
    assert run("topics", "ensure", settings=unmade).returncode == 0
    differing = run("topics", "ensure", "--partitions", "9", settings=unmade)
    assert differing.returncode == 0
    assert "differs" in differing.stdout
    assert "partitions" in differing.stdout


def test_the_command_fails_in_one_sentence_without_a_broker():
    done = run("topics", "ensure", "--bootstrap-servers", f"127.0.0.1:{any_free_port()}", "--timeout", "1")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("switchgear: No Kafka broker answered")
    assert done.stderr.count("\n") == 1
