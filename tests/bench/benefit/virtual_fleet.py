"""Switchgear's fleet on the time of an event loop: real clients, a log in memory with a network's delays, and the real fold."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from switchgear import Switchgear
from switchgear.testing.fakes import MemoryEmitter, MemoryFollower
from switchgear.testing.fleet import START, ByTool
from switchgear.testing.log import MemoryLog
from switchgear.testing.worker import MemoryWorker, create_topics
from switchgear.transport import Wire
from switchgear_schemas.partitioner import partition_of
from switchgear_schemas.topics import TopicNames

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.base import Follower
    from switchgear_schemas import BreakerPolicy

PARTITIONS: Final = 12
LINGER_S: Final = 0.005
"""How long an emitter holds back events that aren't urgent."""
POLL_S: Final = 0.004
"""From a record on the broker to the batch that folds it."""
LOOK_EVERY_S: Final = 1.0
"""A client's background does this every second."""


class VirtualFleet:
    """A transport for clients. The delays are those of the simulator: a few milliseconds, one in a hundred above 70.

    ``policy`` is the one of all tools, by default that of a fleet without a policy file.
    """

    def __init__(self, policy: BreakerPolicy | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._rng = Random(0)
        self._names = TopicNames()
        self._log = MemoryLog(self._wall)
        create_topics(self._log, self._names, PARTITIONS)
        self._worker = MemoryWorker(self._log, ByTool(policy), names=self._names)
        self._worker.assign(range(PARTITIONS))
        self._news: set[int] = set()
        self._followers: list[MemoryFollower] = []
        self._clients: list[Switchgear] = []
        self._background = self._loop.create_task(self._look())

    def client(self, service: str, **options: Any) -> Switchgear:
        """Return a client, as if in its own process."""
        client = Switchgear(self, service=service, **options)
        client._runtime._clock_stands = False  # the loop's time goes on while a call waits for its turn
        self._clients.append(client)
        return client

    def connect(self, client: Any, *, service: str, buffer_size: int) -> Wire:
        """Return the connection of a client. The client calls this itself."""
        follower = MemoryFollower(self._loop.time)
        follower.loaded = True
        self._followers.append(follower)
        emitter = MemoryEmitter(self._send, self._wall, service=service, emitter_id=service, buffer_size=buffer_size)
        return Wire(cast("Emitter", emitter), cast("Follower", follower), self._loop.time, self._wall)

    def close(self) -> None:
        """End the background and the clients."""
        self._background.cancel()
        for client in self._clients:
            client.close()

    def _wall(self) -> float:
        return START + self._loop.time()

    def _delay_s(self) -> float:
        return 0.001 + 0.1 * self._rng.random() ** 16

    def _send(self, tool: str, value: bytes, urgent: bool) -> None:
        linger = 0.0 if urgent else LINGER_S * self._rng.random()
        self._loop.call_later(linger + self._delay_s(), self._arrive, tool, value)

    def _arrive(self, tool: str, value: bytes) -> None:
        partition = partition_of(tool, PARTITIONS)
        self._log.append(self._names.executions, tool.encode(), value, partition=partition)
        if not self._news:
            self._loop.call_later(POLL_S, self._fold)
        self._news.add(partition)

    def _fold(self) -> None:
        news, self._news = self._news, set()
        changes = self._worker.hold(news, topics=[self._names.executions])
        self._worker.finish(changes)
        if changes.circuits:
            for follower in self._followers:
                self._loop.call_later(self._delay_s(), follower.read, self._log, self._names.circuits)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for client in self._clients:
                if client.housekeeping is not None:
                    client.housekeeping.look()
