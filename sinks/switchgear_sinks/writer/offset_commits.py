"""Commit offsets of several partitions in one request; with each, name the batch that is about to be inserted."""

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
    """This process no longer owns the partition. Its next owner finishes the batch."""


class Commits:
    """Collects the commits that arrive while a request is in flight, and sends them as the next request.

    A commit succeeds only for a member of the group's current generation. That makes it a fence: a process that lost its
    partitions can't commit.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: dict[TopicPartition, tuple[OffsetAndMetadata, asyncio.Future[None]]] = {}
        self._wake = asyncio.Event()

    async def submit(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Commit, and return when the broker has it. Each partition may have one call at a time.

        Raises:
            LostPartitionError: The group has a newer generation without this process.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[partition] = (OffsetAndMetadata(offset, metadata), done)
        self._wake.set()
        await done

    async def run(self) -> None:
        """Send commits until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, {}
            waiting = {partition: each for partition, each in waiting.items() if not each[1].done()}
            if waiting and not await self._send(waiting):
                for partition, each in waiting.items():  # the loss of one partition must not fail the others
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
        except Exception as error:  # noqa: BLE001 - raised to the caller of submit
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


_PENDING: Final = re.compile(r"pending:(\d+)-(\d+)(?::(-?\d+))?")
_STORED: Final = re.compile(r"stored:(\d+)-(\d+)")
NOTHING: Final = range(0)


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is about to be inserted: the offsets ``first`` to ``last`` of one partition.

    ``stamp`` is the first record's Kafka timestamp. It matters when a topic is deleted and created again, because the
    offsets start over. Without the stamp ClickHouse would take the first batches for repetitions and drop them.
    """

    first: int
    last: int
    stamp: int

    def metadata(self) -> str:
        """Return the intent as the metadata of an offset commit."""
        return f"pending:{self.first}-{self.last}:{self.stamp}"

    def token(self, topic: str, partition: int) -> str:
        """Return the ``insert_deduplication_token`` of the batch."""
        return f"{topic}-{partition}-{self.first}-{self.last}-{self.stamp}"

    @classmethod
    def parse(cls, metadata: str | None) -> Intent | None:
        """Return the intent that :meth:`metadata` wrote; None for anything else."""
        match = _PENDING.fullmatch(metadata or "")
        if match is None:
            return None
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit of one partition: the next offset to read, and what its metadata says of the offsets from there on.

    ``pending`` is the batch that may be unfinished. ``stored`` are offsets that the store has already: while the offsets before them
    are read again (``switchgear sink --rewind``), they are passed over. Both are in one commit, so a crash can't part them.
    """

    offset: int
    pending: Intent | None = None
    stored: range = NOTHING

    def metadata(self) -> str:
        """Return ``pending`` and ``stored`` as the metadata of the commit."""
        found = [] if self.pending is None else [self.pending.metadata()]
        if self.offset < self.stored.stop:
            found.append(f"stored:{self.stored.start}-{self.stored.stop}")
        return " ".join(found)

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Committed:
        """Return the commit that :meth:`metadata` was written for. Anything else in the metadata is ignored."""
        pending, stored = None, NOTHING
        for word in (metadata or "").split(" "):
            pending = pending or Intent.parse(word)
            if match := _STORED.fullmatch(word):
                stored = range(int(match[1]), int(match[2]))
        return cls(offset, pending, stored)
