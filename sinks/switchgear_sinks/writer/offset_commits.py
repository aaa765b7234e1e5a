"""Commit offsets, one request at a time, and read what the group has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import BrokerUnavailableError
from switchgear_sinks.writer.intents import Committed

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Commit = Callable[[dict[Any, Any]], Awaitable[None]]


_ENDED: Final = "this process commits no more"


class LostPartitionError(Exception):
    """This process no longer owns the partitions. Their next owners finish the batch."""


class Commits:
    """Collects the commits that arrive while a request is in flight, and sends them as the next request.

    A commit succeeds only for a member of the group's current generation. That makes it a fence: a process that lost its
    partitions can't commit.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[tuple[Offsets, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self._open: set[asyncio.Future[None]] = set()
        self._ended = False

    async def submit(self, offsets: Offsets) -> None:
        """Commit, and return when the broker has all of ``offsets``. Each partition may have one call at a time.

        Raises:
            LostPartitionError: The group has a newer generation without this process, or :meth:`run` has ended.
        """
        if self._ended:
            raise LostPartitionError(_ENDED)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offsets, done))
        self._wake.set()
        self._open.add(done)
        try:
            await done
        finally:
            self._open.discard(done)

    async def run(self) -> None:
        """Send commits until cancelled. From then on each commit fails at once, so that a task that a cancellation did not reach ends, too."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                waiting, self._waiting = [each for each in self._waiting if not each[1].done()], []
                if waiting and not await self._send(waiting):
                    for each in waiting:  # the loss of one batch's partitions must not fail the others
                        await self._send([each], last_try=True)
        finally:
            self._ended = True
            for done in self._open:
                if not done.done():
                    done.set_exception(LostPartitionError(_ENDED))

    async def _send(self, waiting: list[tuple[Offsets, asyncio.Future[None]]], *, last_try: bool = False) -> bool:
        failure: Exception | None = None
        try:
            await self._commit({partition: at for offsets, _ in waiting for partition, at in offsets.items()})
        except (CommitFailedError, IllegalStateError) as error:
            if not last_try and len(waiting) > 1:
                return False
            failure = LostPartitionError(str(error))
        except Exception as error:  # noqa: BLE001 - raised to the caller of submit
            failure = error
        for _, done in waiting:
            if done.done():
                continue
            if failure is None:
                done.set_result(None)
            else:
                done.set_exception(failure)
        return True


log = structlog.get_logger()

_ATTEMPTS: Final = 20
_WAIT_S: Final = 0.5


class CommittedOffsets:
    """Reads a group's commits with an admin client, because a consumer gets offsets without their metadata."""

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._admin: Any = None

    async def start(self) -> None:
        """Connect.

        Raises:
            aiokafka.errors.KafkaConnectionError: No broker answered.
        """
        admin = AIOKafkaAdminClient(**self._connection.options())
        try:
            await admin.start()
        except BaseException:
            await admin.close()
            raise
        self._admin = admin

    async def stop(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            await self._admin.close()
            self._admin = None

    async def missing_topics(self, wanted: Iterable[str]) -> list[str]:
        """Return the topics of ``wanted`` that don't exist."""
        known = set(await self._admin.list_topics())
        return [topic for topic in wanted if topic not in known]

    async def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the commits of ``partitions``. One that has no commit is left out.

        Raises:
            BrokerUnavailableError: The group's coordinator gave no answer in ten seconds.
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        for _ in range(_ATTEMPTS):
            try:
                found = await self._admin.list_consumer_group_offsets(self._group, partitions=wanted)
            except (KafkaError, OSError) as error:
                log.warning("the group's offsets cannot be read yet", reason=str(error) or type(error).__name__)
                await asyncio.sleep(_WAIT_S)
                continue
            return {
                partition: Committed.parse(at.offset, at.metadata) for partition, at in found.items() if at.offset >= 0
            }
        raise BrokerUnavailableError(
            f"The coordinator of the group {self._group} does not answer.",
            hint="Nothing is lost. Start the sink again when the brokers are healthy; it continues where it stopped.",
        )
