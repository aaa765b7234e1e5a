"""Offset commits of several partitions in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka.errors import CommitFailedError, IllegalStateError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

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
