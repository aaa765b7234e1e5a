"""What the checks of Kafka conclude from what they saw."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError, GroupLoadInProgressError, NotCoordinatorForGroupError

from switchgear_cli.doctor.checks import Check, SkippedError, run_checks
from switchgear_cli.doctor.kafka import (
    KafkaChecks,
    _agree,
    _described,
    alerts_finding,
    clock_finding,
    group_finding,
    lag_of,
    release_of,
    topic_findings,
)
from switchgear_cli.topics import Difference, TopicReport
from switchgear_schemas.settings import Settings
from tests.support.table import table
from tests.support.virtual_time import in_virtual_time

SETTINGS = Settings(kafka_bootstrap_servers="k:9092")
NAMES = SETTINGS.topics


@table(
    ("versions", "release"),
    [
        ({1: (4, 17), 65: (0, 0), 60: (0, 1)}, "4.0 or later"),
        ({1: (0, 13), 65: (0, 0), 60: (0, 0), 46: (0, 0)}, "3.0 or later"),
        ({1: (0, 12), 60: (0, 0), 46: (0, 0)}, "2.8 or later"),
        ({1: (0, 11), 46: (0, 0)}, "2.4 or later"),
        ({1: (0, 11)}, "before 2.4"),
    ],
)
def test_the_release_of_a_broker_follows_from_the_requests_that_it_knows(versions, release):
    assert release_of(versions) == release


def test_a_missing_topic_is_a_failure_with_the_command_that_creates_it():
    (found,) = topic_findings(TopicReport(NAMES.circuits, "missing"), SETTINGS)
    assert (found.status, found.todo) == ("fail", "switchgear topics ensure")
    assert NAMES.circuits in found.seen


@table(
    ("topic", "found", "status", "todo"),
    [
        (NAMES.executions, "24", "warn", "Leave SWITCHGEAR_TOPIC_PARTITIONS as it is"),
        (NAMES.circuits, "1", "fail", f"--alter --topic {NAMES.circuits} --partitions 12"),
        (NAMES.dead, "1", "warn", ""),
    ],
)
def test_a_topic_with_other_partitions_than_the_rest_does_not_make_the_setting_wrong(topic, found, status, todo):
    report = TopicReport(topic, "differs", (Difference("partitions", "12", found),))
    (finding,) = topic_findings(report, SETTINGS, agreed=False)
    assert (finding.status, todo in finding.todo) == (status, True)
    assert "TOPIC_PARTITIONS=" not in finding.todo


def test_topics_agree_if_all_but_the_dead_letters_have_the_same_partitions():
    same = [
        TopicReport(name, "differs", (Difference("partitions", "12", "4"),))
        for name in (NAMES.executions, NAMES.circuits)
    ]
    assert _agree([*same, TopicReport(NAMES.dead, "ok")], SETTINGS)
    assert not _agree([*same, TopicReport(NAMES.commands, "ok")], SETTINGS)


@table(
    ("topic", "difference", "status", "todo"),
    [
        (NAMES.executions, Difference("partitions", "12", "4"), "fail", "SWITCHGEAR_TOPIC_PARTITIONS=4"),
        (NAMES.dead, Difference("partitions", "12", "4"), "warn", "SWITCHGEAR_TOPIC_PARTITIONS=4"),
        (NAMES.executions, Difference("retention.ms", "9", "8"), "warn", "--add-config retention.ms=9"),
        (
            NAMES.circuits,
            Difference("message.timestamp.type", "LogAppendTime", "CreateTime"),
            "fail",
            f"--alter --entity-type topics --entity-name {NAMES.circuits} --add-config message.timestamp.type=LogAppendTime",
        ),
        (NAMES.dead, Difference("cleanup.policy", "compact,delete", "delete"), "fail", "=[compact,delete]"),
        (NAMES.circuits, Difference("replication_factor", "3", "1"), "warn", "REPLICATION_FACTOR=1"),
    ],
)
def test_a_difference_that_makes_the_worker_wrong_is_a_failure_and_any_other_a_warning(topic, difference, status, todo):
    (found,) = topic_findings(TopicReport(topic, "differs", (difference,)), SETTINGS)
    assert found.status == status
    assert found.todo.endswith(todo)
    assert all(part in found.seen for part in (topic, difference.name, difference.found, difference.wanted))


def test_lag_counts_from_the_committed_offset_or_from_where_the_log_begins():
    places = [TopicPartition("t", number) for number in range(4)]
    ends = dict(zip(places, (100, 50, 30, 7), strict=True))
    begins = dict.fromkeys(places, 20) | {places[3]: 0}
    assert lag_of(ends, begins, {places[0]: 90, places[1]: 5, places[3]: -1}) == 10 + 30 + 10 + 7


@pytest.mark.parametrize(
    ("state", "members", "lag", "status"),
    [
        ("Stable", 2, 0, "ok"),
        ("Stable", 1, 10_001, "warn"),
        ("PreparingRebalance", 1, 0, "warn"),
        ("Empty", 0, 5, "fail"),
    ],
)
def test_a_group_fails_without_members_and_warns_while_it_is_behind_or_moves(state, members, lag, status):
    found = group_finding("worker", "switchgear worker", state, members, lag)
    assert found.status == status
    assert f"{lag:,} records" in found.seen
    assert (found.todo == "") == (status == "ok")


@pytest.mark.parametrize(
    ("ahead_s", "status", "words"),
    [
        (1.9, "ok", "less than 2 s"),
        (-4, "warn", "4.0 s ahead"),
        (4, "warn", "4.0 s behind"),
        (301, "fail", "301.0 s behind"),
    ],
)
def test_clocks_that_differ_are_reported_and_fail_when_events_would_be_late(ahead_s, status, words):
    found = clock_finding("The broker's clock", ahead_s, 300)
    assert found.status == status
    assert words in found.seen


class Answering:
    """A client of brokers that answer with these codes, one after the other."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    async def describe_consumer_groups(self, groups):
        return [SimpleNamespace(groups=[(self.codes.pop(0), groups[0], "Stable", "consumer", "range", ["one", "two"])])]


@in_virtual_time
async def test_a_group_is_described_as_soon_as_its_coordinator_is_ready():
    admin = Answering(NotCoordinatorForGroupError.errno, GroupLoadInProgressError.errno, 0)
    assert await _described(admin, "g") == ("Stable", 2)
    with pytest.raises(SkippedError, match="may not describe the group g"):
        await _described(Answering(GroupAuthorizationFailedError.errno), "g")


def test_alerts_warn_without_a_process_and_while_their_group_moves():
    assert alerts_finding("Stable", 2).seen == "2 processes of switchgear alerts running."
    assert alerts_finding("Stable", 1).status == "ok"
    assert alerts_finding("PreparingRebalance", 1).status == "warn"
    assert alerts_finding("Empty", 0).todo == "switchgear alerts run"


class Restricted:
    """A client of brokers that list only the topics of a service, and don't show how they are configured."""

    async def describe_topics(self):
        part = {"partition": 0, "leader": 1, "isr": [1], "replicas": [1], "error_code": 0}
        return [{"topic": name, "error_code": 0, "partitions": [part]} for name in (NAMES.executions, NAMES.circuits)]

    async def describe_configs(self, resources):
        return [
            SimpleNamespace(resources=[(29, "Topic authorization failed.", 2, each.name, []) for each in resources])
        ]


@pytest.mark.parametrize(("role", "status"), [("service", "skip"), ("sink", "fail"), ("operator", "fail")])
async def test_topics_are_compared_as_far_as_the_role_needs_them_and_may_see_them(monkeypatch, role, status):
    @asynccontextmanager
    async def restricted(_self):
        yield Restricted()

    monkeypatch.setattr(KafkaChecks, "_admin", restricted)
    checks = KafkaChecks(SETTINGS, role, 5)
    (found,) = await run_checks([Check("topics", checks.topics)], 5)
    assert found.finding.status == status
    missing = {"service": "", "sink": NAMES.dead, "operator": "Topic authorization failed"}[role]
    assert missing in found.finding.seen
