"""Fetches that wait long at the broker, without delaying anything else.

An idle follower costs a broker one fetch in each wait. A record still arrives at once, because the broker answers as soon as it has
one. But aiokafka expects short waits, and with long ones four things would stand still:

* A broker answers the requests of one connection in order, so a request for metadata would wait behind the fetch. Fetches get a
  connection of their own.
* A partition that moves to another broker would wait until the fetch that already waits there ends. That fetch is cut short.
* A fetch leaves out a partition whose records were not taken yet. None is sent before they are taken.
* A consumer that stops would leave its fetch at the broker. Its connection is closed.

This module uses private names of aiokafka. It is pinned exactly, and ``tests/unit/producers/follower/test_long_fetch.py`` fails if
they change.
"""

# ruff: noqa: SLF001 - pinned, see the module's docstring

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from aiokafka.client import ConnectionGroup
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import TopicPartition

from switchgear.follower.status import FRESH_S

_GROUP: Final = ConnectionGroup.COORDINATION
"""A follower has no group, so it has no other use for this connection."""
_UNTIL_TAKEN_S: Final = 3_600.0
_NOTHING: Final = SimpleNamespace(API_VERSION=0, topics=())
"""The answer to a fetch that was cut short."""


class LongFetch:
    """The fetches of one consumer.

    Args:
        wait_s: The longest wait of a fetch, in seconds.
        clock: Returns monotonic seconds.
    """

    def __init__(self, wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait_s = wait_s
        self._clock = clock
        self._client: Any = None
        self._fetcher: Any = None
        self._send: Any = None
        self._waiting: set[int] = set()
        self._cut: set[int] = set()
        self._answered: dict[int, float] = {}
        self._prompt: dict[int, bool] = {}
        self._leaders: dict[tuple[str, int], int] = {}

    @property
    def prompt(self) -> bool:
        """Whether records were read as soon as they were written: every broker had a fetch waiting when it answered last."""
        return bool(self._prompt) and all(self._prompt.values())

    def install(self, consumer: Any) -> None:
        """Let ``consumer``, an ``AIOKafkaConsumer`` that is started and has read nothing yet, fetch in this way."""
        self._client, self._fetcher = consumer._client, consumer._fetcher
        self._fetcher._prefetch_backoff = _UNTIL_TAKEN_S
        self._send = self._client.send
        self._client.send = self._sent
        self._leaders = self._known_leaders(self._client.cluster)
        self._client.cluster.add_listener(self._take_metadata)

    async def _sent(self, node: int, request: Any, **named: Any) -> Any:
        if not isinstance(request, FetchRequest):
            return await self._send(node, request, **named)
        began = self._clock()
        self._waiting.add(node)
        try:
            answer = await self._send(node, request, group=_GROUP)
        except KafkaConnectionError:
            if node in self._cut:
                return _NOTHING
            self._note_alive(request)
            raise
        except asyncio.CancelledError:
            self._close(node)
            raise
        finally:
            self._cut.discard(node)
            self._waiting.discard(node)
        now = self._clock()
        gap = began - self._answered.get(node, float("-inf"))
        self._prompt[node] = gap < FRESH_S and now - began < self._wait_s + FRESH_S
        self._answered[node] = now
        return answer

    def _take_metadata(self, cluster: Any) -> None:
        leaders = self._known_leaders(cluster)
        moved = {leader for place, leader in leaders.items() if self._leaders.get(place) != leader}
        self._leaders = leaders
        for node in moved & self._waiting:
            self._cut.add(node)
            self._close(node)

    def _known_leaders(self, cluster: Any) -> dict[tuple[str, int], int]:
        topics = self._client._topics
        return {
            (topic, partition): cluster.leader_for_partition(TopicPartition(topic, partition))
            for topic in topics
            for partition in cluster.partitions_for_topic(topic) or ()
        }

    def _close(self, node: int) -> None:
        connection = self._client._conns.get((node, _GROUP))
        if connection is not None:
            connection.close()

    def _note_alive(self, request: Any) -> None:
        """Note that the broker was there until the connection broke: it had nothing to send, so it sent nothing."""
        subscription = self._fetcher._subscriptions.subscription
        assignment = None if subscription is None else subscription.assignment
        if assignment is None:
            return
        for topic, partitions in request.topics:
            for partition, *_ in partitions:
                place = TopicPartition(topic, partition)
                if place in assignment.tps:
                    assignment.state_value(place).timestamp = int(time.time() * 1000)
