"""Long fetches: their connection, and what cuts them short. The names of aiokafka that this rests on exist."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import TopicPartition

from switchgear.follower.long_fetch import LongFetch
from switchgear.testing import FakeClock

HERE = TopicPartition("circuits", 0)
WAIT_S = 10.0


class Connection:
    """The fetches of one broker. A fetch waits until the broker answers or the connection closes."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def close(self, reason: Any = None) -> None:
        if not self.answer.done():
            self.answer.set_exception(KafkaConnectionError("closed"))


class Consumer:
    """aiokafka's consumer of one partition, with its real client, metadata and subscriptions. Its sockets are replaced."""

    def __init__(self) -> None:
        self._client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
        self._client._topics = {"circuits"}
        self.connections = {node: Connection() for node in (1, 2)}
        self._client._conns.update(
            {(node, ConnectionGroup.COORDINATION): each for node, each in self.connections.items()}
        )
        self.groups: list[tuple[str, Any]] = []
        self._client.send = self.send
        subscriptions = SubscriptionState()
        subscriptions.subscribe({"circuits"})
        subscriptions.assign_from_subscribed([HERE])
        subscriptions.subscription.assignment.state_value(HERE).reset_to(0)
        self.state = subscriptions.subscription.assignment.state_value(HERE)
        self._fetcher = SimpleNamespace(_subscriptions=subscriptions, _prefetch_backoff=0.1)
        self.led_by(1)

    async def send(self, node: int, request: Any, *, group: Any = ConnectionGroup.DEFAULT) -> Any:
        self.groups.append((type(request).__name__, group))
        return await self.connections[node].answer

    def led_by(self, leader: int) -> None:
        """Take metadata in which this broker leads the partition."""
        partition = (0, 0, leader, [1, 2], [1, 2])
        response = SimpleNamespace(
            brokers=[(1, "a", 1, None), (2, "b", 2, None)],
            controller_id=1,
            topics=[(0, "circuits", False, [partition])],
            API_VERSION=1,
        )
        self._client.cluster.update_metadata(response)


@pytest.fixture
async def consumer() -> Consumer:
    return Consumer()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def fetches(consumer: Consumer, clock: FakeClock) -> LongFetch:
    made = LongFetch(WAIT_S, clock.monotonic)
    made.install(consumer)
    return made


def request() -> FetchRequest:
    return FetchRequest(int(1000 * WAIT_S), 1, 1, 0, [("circuits", [(0, 0, 1)])])


async def sent(consumer: Consumer, node: int) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(consumer._client.send(node, request()))
    await asyncio.sleep(0)
    return task


async def answered(consumer: Consumer, node: int, clock: FakeClock, after_s: float) -> None:
    task = await sent(consumer, node)
    clock.advance(after_s)
    consumer.connections[node].answer.set_result("records")
    assert await task == "records"
    consumer.connections[node].answer = asyncio.get_running_loop().create_future()


async def test_a_fetch_has_a_connection_of_its_own_and_other_requests_do_not_wait_behind_it(
    consumer: Consumer, fetches: LongFetch
) -> None:
    fetch = await sent(consumer, 1)
    other = asyncio.ensure_future(consumer._client.send(1, MetadataRequest([])))
    await asyncio.sleep(0)
    assert consumer.groups == [
        ("FetchRequest", ConnectionGroup.COORDINATION),
        ("MetadataRequest", ConnectionGroup.DEFAULT),
    ]
    consumer.connections[1].answer.set_result("records")
    assert (await fetch, await other) == ("records", "records")


async def test_a_fetch_is_cut_short_when_a_partition_moves_to_its_broker(
    consumer: Consumer, fetches: LongFetch
) -> None:
    fetch = await sent(consumer, 2)
    consumer.led_by(1)
    await asyncio.sleep(0)
    assert not fetch.done(), "nothing has moved"
    consumer.led_by(2)
    assert list((await fetch).topics) == [], "as if it had found nothing, so aiokafka sends the next one at once"
    assert consumer.state.timestamp is None, "it is no answer of the broker"


async def test_a_fetch_that_is_cancelled_closes_its_connection(consumer: Consumer, fetches: LongFetch) -> None:
    fetch = await sent(consumer, 1)
    fetch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetch
    assert consumer.connections[1].answer.done()


async def test_a_broker_whose_connection_breaks_was_there_until_then(consumer: Consumer, fetches: LongFetch) -> None:
    fetch = await sent(consumer, 1)
    consumer.connections[1].close()
    with pytest.raises(KafkaConnectionError):
        await fetch
    assert consumer.state.timestamp


async def test_records_are_prompt_only_if_a_fetch_waited_for_them(
    consumer: Consumer, fetches: LongFetch, clock: FakeClock
) -> None:
    assert not fetches.prompt
    await answered(consumer, 1, clock, 0.01)
    assert not fetches.prompt, "the first fetch reads a backlog"
    await answered(consumer, 1, clock, 9.9)
    assert fetches.prompt
    clock.advance(1.5)
    await answered(consumer, 1, clock, 0.01)
    assert not fetches.prompt, "for 1.5 s no fetch waited"
    await answered(consumer, 1, clock, 0.01)
    assert fetches.prompt
    await answered(consumer, 1, clock, 12.0)
    assert not fetches.prompt, "the answer is overdue: the network held it"
    await answered(consumer, 2, clock, 0.01)
    await answered(consumer, 1, clock, 0.01)
    assert not fetches.prompt, "another broker's records may be old"


def test_the_private_names_of_aiokafka_exist() -> None:
    client = AIOKafkaClient.__init__.__code__.co_names
    assert {"_conns", "_topics", "cluster"} <= set(client)
    fetcher = Fetcher.__init__.__code__.co_names
    assert {"_prefetch_backoff", "_subscriptions", "_client"} <= set(fetcher)
    assert "_client" in Fetcher._proc_fetch_request.__code__.co_names
    assert callable(ClusterMetadata.add_listener)
