"""While Kafka is away the log has a few lines a minute, and says what they mean."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import threading
from collections.abc import Iterator

import aiokafka
import pytest

from switchgear.runtime import kafka_log
from switchgear.runtime.kafka_log import AWAY_AFTER_S, CALM_S, EVERY_S, LOGGERS, KafkaLogFilter
from tests.support.clock import Clock

LINES = (
    ("aiokafka", 'Unable connect to "%s:%s": %s', ("localhost", 9092, "refused")),
    ("aiokafka", "Unable connect to node with id %s: %s", (1, "refused")),
    ("aiokafka", "Unable to update metadata from %s", ([1],)),
    ("aiokafka.consumer.fetcher", "Failed fetch messages from %s: %s", (1, "away")),
    ("aiokafka.consumer.group_coordinator", "Heartbeat send request failed: %s. Will retry.", ("away",)),
)


class Consumer:
    """A consumer whose partitions were answered at these times."""

    def __init__(self, *stamps: int | None) -> None:
        self.stamps = stamps

    def assignment(self) -> range:
        return range(len(self.stamps))

    def last_poll_timestamp(self, partition: int) -> int | None:
        return self.stamps[partition]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> KafkaLogFilter:
    found = KafkaLogFilter(clock, lambda: 1_796_000_000 + clock.now)
    found.address, found.everywhere = "localhost:9092", True
    return found


def record(name: str, template: str, arguments: tuple[object, ...], level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, template, arguments, None)


def outage(limit: KafkaLogFilter, clock: Clock, seconds: float) -> list[str]:
    """What passes of 70 lines a second."""
    passed = []
    for number in range(int(70 * seconds)):
        line = record(*LINES[number % len(LINES)])
        if limit.filter(line):
            passed.append(line.getMessage())
        clock.now += 1 / 70
    return passed


def test_of_4_800_lines_in_70_s_a_few_pass_with_the_number_of_those_left_out(
    limit: KafkaLogFilter, clock: Clock
) -> None:
    passed = outage(limit, clock, 70)
    assert len(passed) == len(LINES) * 4
    assert passed[0] == 'Unable connect to "localhost:9092": refused'
    assert passed[5].startswith('Unable connect to "localhost:9092": refused (and 2')
    assert passed[5].endswith(" more like it)")


def test_what_an_outage_means_is_said_once_with_its_beginning_and_so_is_its_end(
    limit: KafkaLogFilter, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage(limit, clock, AWAY_AFTER_S - 1)
    assert caplog.messages == []
    outage(limit, clock, 55)
    (away,) = caplog.messages
    assert away.startswith("Kafka at localhost:9092 has not answered since ")
    assert away.endswith(" UTC. Calls go on: events wait in memory or in the spool, and the last known circuits hold.")
    limit.answered()
    limit.answered()
    assert caplog.messages[1:] == ["Kafka at localhost:9092 answers again, after 69 s."]
    outage(limit, clock, AWAY_AFTER_S + 1)
    assert len(caplog.messages) == 3


def test_one_broker_of_several_that_is_down_is_no_outage(
    limit: KafkaLogFilter, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        outage(limit, clock, AWAY_AFTER_S - 1)
        limit.answered()
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("before", "after", "waited_s", "back"),
    [
        ((5, 5), (5, 5), 1, False),
        ((5, 5), (5, 6), 1, True),
        ((5, 5), (6,), 1, False),  # another assignment is no answer
        ((), (), 1, False),
        ((), (), CALM_S, True),
    ],
)
def test_an_outage_ends_with_an_answer_to_a_consumer_or_a_minute_without_a_failure(
    limit: KafkaLogFilter,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    before: tuple[int, ...],
    after: tuple[int, ...],
    waited_s: float,
    back: bool,
) -> None:
    limit.look(Consumer(None))
    outage(limit, clock, AWAY_AFTER_S + 1)
    consumer = Consumer(*before)
    limit.look(consumer)
    clock.now += waited_s
    consumer.stamps = after
    limit.look(consumer)
    assert (len(caplog.messages) == 2) is back


def test_other_messages_lower_levels_and_later_lines_pass(limit: KafkaLogFilter, clock: Clock) -> None:
    assert limit.filter(record("aiokafka", "a %s", (1,)))
    assert not limit.filter(record("aiokafka", "a %s", (2,)))
    assert limit.filter(record("aiokafka.conn", "a %s", (3,)))
    assert all(limit.filter(record("aiokafka", "b %s", (4,), logging.DEBUG)) for _ in range(9))
    clock.now += EVERY_S
    assert limit.filter(record("aiokafka", "a %s", (5,)))


def test_lines_of_other_clients_in_the_program_pass(limit: KafkaLogFilter) -> None:
    limit.everywhere = False
    passed: list[bool] = []

    def write(*, own: bool) -> None:
        kafka_log.ours.thread = own
        passed.extend(limit.filter(record("aiokafka", "a", ())) for _ in range(3))

    for own in (False, True):
        thread = threading.Thread(target=write, kwargs={"own": own})
        thread.start()
        thread.join()
    assert passed == [True, True, True, True, False, False]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    filters = {name: list(logging.getLogger(name).filters) for name in LOGGERS}
    monkeypatch.setattr(kafka_log, "_filter", KafkaLogFilter())
    yield
    for name, before in filters.items():
        logging.getLogger(name).filters[:] = before


def count_of_filters() -> int:
    return sum(isinstance(each, KafkaLogFilter) for name in LOGGERS for each in logging.getLogger(name).filters)


@pytest.mark.usefixtures("installed")
def test_the_limit_is_installed_once_leaves_the_root_logger_alone_and_can_be_switched_off() -> None:
    for name in LOGGERS:
        logging.getLogger(name).filters.clear()
    root = logging.getLogger()
    before = (root.level, list(root.handlers), list(root.filters))
    for _ in range(3):
        kafka_log.install("localhost:9092")
    assert count_of_filters() == len(LOGGERS)
    assert (root.level, root.handlers, root.filters) == before
    kafka_log.unlimit()
    kafka_log.install("localhost:9092")
    assert count_of_filters() == 0


def test_every_logger_of_aiokafka_that_writes_of_connections_is_listed() -> None:
    for module in pkgutil.walk_packages(aiokafka.__path__, "aiokafka."):
        if "__main__" not in module.name:
            importlib.import_module(module.name)
    found = {name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "aiokafka"}
    with_lines = {name for name in found if isinstance(logging.root.manager.loggerDict[name], logging.Logger)}
    assert {name for name in with_lines if ".assignors" not in name} == set(LOGGERS)
