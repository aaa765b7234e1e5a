"""Offset commits of several partitions in one request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import BrokerUnavailableError

Commit = Callable[[dict[Any, Any]], Awaitable[None]]


class LostPartitionError(Exception):
    """The partition is no longer ours: its next owner finishes the batch."""


class Commits:
    """Collects what the partitions want to commit while a request is under way, and sends it as the next request.

    A commit succeeds only for a member of the group's present generation, which makes it the fence of the protocol.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: dict[TopicPartition, tuple[OffsetAndMetadata, asyncio.Future[None]]] = {}
        self._wake = asyncio.Event()

    async def submit(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Return when the broker has it. One call a partition at a time.

        Raises:
            LostPartitionError: the group has moved on without us.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[partition] = (OffsetAndMetadata(offset, metadata), done)
        self._wake.set()
        await done

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, {}
            waiting = {partition: each for partition, each in waiting.items() if not each[1].done()}
            if waiting and not await self._send(waiting):
                for partition, each in waiting.items():  # one partition's loss must not fail the others
                    await self._send({partition: each}, last_try=True)

    async def _send(
        self, waiting: dict[TopicPartition, tuple[OffsetAndMetadata, asyncio.Future[None]]], *, last_try: bool = False
    ) -> bool:
        failure: Exception | None = None
        try:
            await self._commit({partition: offset for partition, (offset, _) in waiting.items()})
        except (CommitFailedError, IllegalStateError) as error:
            if not last_try and len(waiting) > 1:
                return False
            failure = LostPartitionError(str(error))
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for this commit, who owns it
            failure = error
        for _, done in waiting.values():
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


class CommittedIntents:
    """An admin client: the consumer itself gives offsets without their metadata."""

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._admin: Any = None

    async def start(self) -> None:
        """Connect.

        Raises:
            aiokafka.errors.KafkaConnectionError: no broker answered.
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
        """Which of ``wanted`` the brokers do not have."""
        known = set(await self._admin.list_topics())
        return [topic for topic in wanted if topic not in known]

    async def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Intent]:
        """The unfinished batches of ``partitions``.

        Raises:
            BrokerUnavailableError: the group's coordinator gave no answer in ten seconds.
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
            intents = {partition: Intent.parse(at.metadata) for partition, at in found.items() if at.offset >= 0}
            return {partition: intent for partition, intent in intents.items() if intent is not None}
        raise BrokerUnavailableError(
            f"The coordinator of the group {self._group} does not answer.",
            hint="Nothing is lost: the sink goes on where it stopped once the brokers are healthy.",
        )


_WRITTEN: Final = re.compile(r"pending:(\d+)-(\d+)(?::(-?\d+))?")


@dataclass(frozen=True, slots=True)
class Intent:
    """Offsets ``first`` to ``last`` of one partition. ``stamp`` is the first record's Kafka timestamp.

    The stamp tells a topic from one of the same name that was deleted and made anew: its offsets start over, and without
    the stamp its first batches would carry tokens that ClickHouse has seen, and be dropped.
    """

    first: int
    last: int
    stamp: int

    def metadata(self) -> str:
        """For the offset commit."""
        return f"pending:{self.first}-{self.last}:{self.stamp}"

    def token(self, topic: str, partition: int) -> str:
        """For ``insert_deduplication_token``."""
        return f"{topic}-{partition}-{self.first}-{self.last}-{self.stamp}"

    @classmethod
    def parse(cls, metadata: str | None) -> Intent | None:
        """Read back what :meth:`metadata` wrote; None for anything else."""
        match = _WRITTEN.fullmatch(metadata or "")
        if match is None:
            return None
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))
