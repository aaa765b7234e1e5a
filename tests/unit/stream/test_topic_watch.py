"""What the worker says about its topics, and when it publishes its circuits again."""

from __future__ import annotations

from aiokafka.errors import KafkaConnectionError

from switchgear_schemas.settings import load_settings
from switchgear_stream.topic_watch import GONE_S, TopicWatch, judge
from tests.support.clock import Clock

SETTINGS = load_settings(topic_prefix="t.", topic_partitions=4)
NAMES = SETTINGS.topics
FINE = {topic.name: 4 for topic in SETTINGS.topic_definitions()}


def test_topics_as_the_worker_needs_them_are_nothing_to_say():
    judged = judge(FINE | {NAMES.dead: 7}, SETTINGS)
    assert (judged.problem, judged.notice) == (None, None)


def test_a_missing_topic_is_a_problem_with_the_command_that_creates_it():
    found = judge({name: count for name, count in FINE.items() if name != NAMES.circuits}, SETTINGS)
    assert found.problem == "Kafka has no topic t.circuits. Create it with `switchgear topics ensure`."


def test_too_few_partitions_are_a_problem_with_the_command_that_adds_them():
    problem = judge(FINE | {NAMES.executions: 1}, SETTINGS).problem
    assert problem is not None
    assert problem.startswith("t.executions has 1 partition, and circuits are kept in 4")
    assert "--topic t.executions --partitions 4" in problem


def test_added_partitions_are_no_problem_and_the_notice_says_not_to_follow_them():
    found = judge(FINE | {NAMES.executions: 8}, SETTINGS)
    assert found.problem is None
    assert found.notice is not None
    assert found.notice.startswith("t.executions has 8 partitions, and circuits are kept in 4 (topic_partitions).")
    assert "Leave topic_partitions as it is" in found.notice


class Broker:
    """The publisher and the owner, as far as the watch needs them."""

    def __init__(self) -> None:
        self.counts = dict(FINE)
        self.ends_of_circuits = {0: 3, 1: 0}
        self.circuit_ends: dict[int, int] = {}
        self.set_back = self.away = False
        self.published_again = 0
        self.clock = Clock()
        self.watch = TopicWatch(SETTINGS, self, self, self.clock)  # type: ignore[arg-type]

    async def leaders(self) -> dict[str, dict[int, int]]:
        if self.away:
            raise KafkaConnectionError("away")
        return {topic: dict.fromkeys(range(count), 1) for topic, count in self.counts.items()}

    async def ends(self, _topic: str, _leaders: dict[int, int]) -> dict[int, int]:
        return self.ends_of_circuits

    def heard(self, ends: dict[int, int]) -> None:
        self.circuit_ends |= ends

    def take_set_back(self) -> bool:
        found, self.set_back = self.set_back, False
        return found

    async def publish_again(self) -> None:
        self.published_again += 1


async def test_a_circuits_topic_that_grows_is_left_alone():
    broker = Broker()
    for end in (3, 3, 9):
        broker.ends_of_circuits = {0: end, 1: 0}
        await broker.watch.look()
    assert broker.published_again == 0


async def test_circuits_are_published_again_when_their_topic_ends_before_the_last_look():
    broker = Broker()
    await broker.watch.look()
    broker.ends_of_circuits = {0: 0, 1: 0}
    await broker.watch.look()
    assert broker.published_again == 0, "a new leader may say so for a moment"
    for _ in range(3):
        await broker.watch.look()
    assert broker.published_again == 1


async def test_an_end_that_a_new_leader_reports_too_low_for_a_moment_means_nothing():
    broker = Broker()
    for end in (3, 1, 3, 1, 4):
        broker.ends_of_circuits = {0: end, 1: 0}
        await broker.watch.look()
    assert broker.published_again == 0


async def test_circuits_are_published_again_when_their_topic_ends_before_what_the_worker_wrote():
    broker = Broker()
    broker.circuit_ends = {1: 5}
    for _ in range(3):
        await broker.watch.look()
    assert broker.published_again == 1


async def test_circuits_are_published_again_when_an_offset_came_twice():
    broker = Broker()
    await broker.watch.look()
    broker.set_back = True
    await broker.watch.look()
    assert broker.published_again == 1


async def test_a_broker_that_does_not_answer_changes_nothing():
    broker = Broker()
    broker.counts[NAMES.executions] = 8
    await broker.watch.look()
    broker.away = True
    await broker.watch.look()
    assert broker.watch.notice is not None
    assert broker.published_again == 0


async def test_a_topic_that_is_created_again_at_once_is_no_problem():
    broker = Broker()
    del broker.counts[NAMES.circuits]
    await broker.watch.look()
    assert broker.watch.problem is None
    broker.clock.now += GONE_S
    assert broker.watch.problem is not None
    broker.counts = dict(FINE)
    await broker.watch.look()
    assert broker.watch.problem is None
