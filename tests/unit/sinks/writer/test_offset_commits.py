"""Commits of several partitions share a request, and fail each for itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from switchgear_sinks.writer.offset_commits import Commits, LostPartitionError
from tests.support.limits import ANSWER_S

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)


class Coordinator:
    """Takes commits; refuses those of ``lost`` partitions; answers once ``open`` is set."""

    def __init__(self, *lost: TopicPartition, error: Exception | None = None) -> None:
        self.requests: list[dict[Any, Any]] = []
        self.lost = set(lost)
        self.error = error
        self.open = asyncio.Event()
        self.open.set()

    async def commit(self, offsets: dict[Any, Any]) -> None:
        self.requests.append(dict(offsets))
        await self.open.wait()
        if self.lost & set(offsets):
            raise self.error or IllegalStateError("not assigned")


async def submitted(coordinator: Coordinator, *partitions: TopicPartition) -> list[Any]:
    commits = Commits(coordinator.commit)
    running = asyncio.create_task(commits.run())
    try:
        async with asyncio.timeout(ANSWER_S):
            return await asyncio.gather(
                *(commits.submit({each: OffsetAndMetadata(7, "pending")}) for each in partitions),
                return_exceptions=True,
            )
    finally:
        running.cancel()


async def test_commits_that_arrive_together_are_one_request() -> None:
    coordinator = Coordinator()
    assert await submitted(coordinator, ONE, TWO) == [None, None]
    assert len(coordinator.requests) == 1
    assert coordinator.requests[0][ONE].offset == 7
    assert coordinator.requests[0][ONE].metadata == "pending"


async def test_commit_during_a_request_waits_for_the_next_request() -> None:
    coordinator = Coordinator()
    coordinator.open.clear()
    commits = Commits(coordinator.commit)
    running = asyncio.create_task(commits.run())
    first = asyncio.create_task(commits.submit({ONE: OffsetAndMetadata(1, "")}))
    while not coordinator.requests:  # noqa: ASYNC110 - the coordinator is a list
        await asyncio.sleep(0)
    second = asyncio.create_task(commits.submit({TWO: OffsetAndMetadata(2, "")}))
    await asyncio.sleep(0.01)
    assert not first.done()
    assert len(coordinator.requests) == 1
    coordinator.open.set()
    async with asyncio.timeout(ANSWER_S):
        await asyncio.gather(first, second)
    assert [set(request) for request in coordinator.requests] == [{ONE}, {TWO}]
    running.cancel()


@pytest.mark.parametrize("error", [IllegalStateError("not assigned"), CommitFailedError("rebalanced")])
async def test_commit_of_a_lost_partition_fails_alone(error: Exception) -> None:
    lost, kept = await submitted(Coordinator(ONE, error=error), ONE, TWO)
    assert isinstance(lost, LostPartitionError)
    assert kept is None


async def test_error_of_a_commit_is_raised_to_its_caller() -> None:
    found = await submitted(Coordinator(ONE, error=KafkaError("metadata too large")), ONE)
    assert isinstance(found[0], KafkaError)


async def test_commit_of_a_cancelled_caller_is_not_sent() -> None:
    coordinator = Coordinator()
    commits = Commits(coordinator.commit)
    given_up = asyncio.create_task(commits.submit({ONE: OffsetAndMetadata(1, "")}))
    await asyncio.sleep(0)
    given_up.cancel()
    running = asyncio.create_task(commits.run())
    await asyncio.sleep(0.01)
    assert coordinator.requests == []
    running.cancel()


async def test_nobody_waits_for_a_commit_after_the_last_one() -> None:
    coordinator = Coordinator()
    coordinator.open.clear()
    commits = Commits(coordinator.commit)
    running = asyncio.create_task(commits.run())
    early = asyncio.create_task(commits.submit({ONE: OffsetAndMetadata(1, "")}))
    while not coordinator.requests:  # noqa: ASYNC110 - the coordinator is a list
        await asyncio.sleep(0)
    running.cancel()
    async with asyncio.timeout(ANSWER_S):
        with pytest.raises(LostPartitionError):
            await early
        with pytest.raises(LostPartitionError):
            await commits.submit({TWO: OffsetAndMetadata(2, "")})
    assert [set(request) for request in coordinator.requests] == [{ONE}]
