"""One partition's protocol: the batch is named, landed, and done, in that order and under a fence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.errors import CommitFailedError
from aiokafka.structs import TopicPartition

from switchgear_sinks.writer.assignment import Assignment
from switchgear_sinks.writer.batches import RECORD_BYTES, Batch
from switchgear_sinks.writer.offset_commits import Commits, Committed, Intent
from switchgear_sinks.writer.partition import PartitionWriter
from switchgear_sinks.writer.settings import WriterLimits
from tests.support.records import NOON_MS, records

HERE = TopicPartition("executions", 3)
LIMITS = WriterLimits(batch_rows=2, batch_age_s=60.0, fence_s=10.0)


class World:
    """What a partition meets: a clock, a coordinator that takes commits, a table that takes batches. All written down."""

    def __init__(self) -> None:
        self.now = 100.0
        self.said: list[str] = []
        self.lost = False
        self.attempts: list[Callable[[], None]] = []
        self.hold: asyncio.Event | None = None

    def clock(self) -> float:
        return self.now

    async def commit(self, offsets: dict[Any, Any]) -> None:
        if self.lost:
            raise CommitFailedError("rebalanced")
        self.said += [f"commit {each.offset} {each.metadata}".strip() for each in offsets.values()]

    async def insert(self, topic: str, partition: int, batch: Batch, fence: Callable[[], Awaitable[None]]) -> None:
        for between in [*self.attempts, None]:
            await fence()
            if between is not None:
                self.said.append("failed")
                between()
        if self.hold is not None:
            await self.hold.wait()
        self.said.append(f"insert {batch.intent.token(topic, partition)}")

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.said) < count:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0.001)


@asynccontextmanager
async def writing(
    world: World, pending: Intent | None = None, stored: range = range(0)
) -> AsyncIterator[tuple[PartitionWriter, asyncio.Task[None]]]:
    commits = Commits(world.commit)
    committed = Committed(0, pending, stored)
    writer = PartitionWriter(HERE, world, commits, LIMITS, world.clock, committed)  # type: ignore[arg-type]
    tasks = [asyncio.create_task(writer.run()), asyncio.create_task(commits.run())]
    try:
        yield writer, tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def named(first: int, last: int) -> str:
    return f"commit {first} pending:{first}-{last}:{NOON_MS}"


def inserted(first: int, last: int) -> str:
    return f"insert executions-3-{first}-{last}-{NOON_MS}"


async def test_a_batch_is_named_then_inserted_then_done() -> None:
    world = World()
    async with writing(world) as (writer, _):
        writer.feed(records(b"a", b"b"))
        await world.until(3)
        assert world.said == [named(0, 1), inserted(0, 1), "commit 2"]
        assert writer.landed == 2
        assert writer.held_bytes == 0


async def test_the_next_intent_says_that_the_batch_before_is_done() -> None:
    world = World()
    async with writing(world) as (writer, _):
        writer.feed(records(b"a", b"b", b"c", b"d"))
        await world.until(5)
        assert world.said == [named(0, 1), inserted(0, 1), named(2, 3), inserted(2, 3), "commit 4"]


async def test_a_range_that_was_named_before_keeps_its_name() -> None:
    world = World()
    async with writing(world, Intent(0, 3, 7)) as (writer, _):
        writer.feed(records(b"a", b"b", b"c"))
        await asyncio.sleep(0.02)
        assert world.said == [], "not before it is complete"
        writer.feed(records(b"d", b"e", first=3))
        await world.until(3)
        assert world.said[:2] == ["commit 0 pending:0-3:7", "insert executions-3-0-3-7"]


async def test_an_attempt_soon_after_needs_no_new_fence() -> None:
    world = World()
    world.attempts = [lambda: None, lambda: None]
    async with writing(world) as (writer, _):
        writer.feed(records(b"a", b"b"))
        await world.until(5)
        assert world.said == [named(0, 1), "failed", "failed", inserted(0, 1), "commit 2"]


async def test_what_the_store_has_already_is_passed_over_and_each_commit_says_so_until_then() -> None:
    world = World()
    async with writing(world, stored=range(3, 6)) as (writer, _):
        writer.feed(records(*[b"x"] * 8))
        writer.hurry()
        await world.until(7)
        assert world.said == [
            f"{named(0, 1)} stored:3-6",
            inserted(0, 1),
            f"{named(2, 6)} stored:3-6",
            f"insert executions-3-2-6-{NOON_MS}",
            named(7, 7),
            inserted(7, 7),
            "commit 8",
        ]


async def test_a_partition_that_ends_with_what_the_store_has_is_committed_to_its_end() -> None:
    world = World()
    async with writing(world, stored=range(2, 4)) as (writer, _):
        writer.feed(records(*[b"x"] * 4))
        await world.until(3)
        assert world.said == [f"{named(0, 1)} stored:2-4", inserted(0, 1), "commit 2 stored:2-4"]
        writer.passed(4)
        await world.until(4)
        assert world.said[3] == "commit 4"


async def test_a_topic_that_is_created_again_after_a_rewind_is_stored_from_its_beginning() -> None:
    world = World()
    async with writing(world, stored=range(1, 3)) as (writer, _):
        writer.feed(records(*[b"x"] * 4))
        writer.feed(records(b"x", first=4))
        await world.until(3)
        assert not writer._skipped


def sleeping(world: World, seconds: float) -> Callable[[], None]:
    def sleep() -> None:
        world.now += seconds

    return sleep


async def test_a_sink_that_slept_checks_its_assignment_before_it_inserts() -> None:
    world = World()
    world.attempts = [sleeping(world, 11.0)]
    async with writing(world) as (writer, _):
        writer.feed(records(b"a", b"b"))
        await world.until(5)
        assert world.said == [named(0, 1), "failed", named(0, 1), inserted(0, 1), "commit 2"]


async def test_a_sink_that_was_replaced_while_it_slept_inserts_nothing() -> None:
    world = World()

    def replaced() -> None:
        world.now += 11.0
        world.lost = True

    world.attempts = [replaced]
    async with writing(world) as (writer, task):
        writer.feed(records(b"a", b"b"))
        async with asyncio.timeout(5):
            await task
        assert world.said == [named(0, 1), "failed"]


async def test_an_ending_partition_finishes_its_batch_and_starts_no_other() -> None:
    world = World()
    world.hold = asyncio.Event()
    async with writing(world) as (writer, task):
        writer.feed(records(b"a", b"b", b"c", b"d"))
        await world.until(1)
        writer.end()
        world.hold.set()
        async with asyncio.timeout(5):
            await task
        assert world.said == [named(0, 1), inserted(0, 1), "commit 2"]


async def test_records_missing_in_the_log_are_counted() -> None:
    world = World()
    async with writing(world) as (writer, _):
        assert len(writer.feed(records(b"a", first=50))) == 0, "the first offset is not a gap"
        assert len(writer.feed(records(b"b", first=51))) == 0
        assert writer.feed(records(b"c", first=60)) == range(52, 60)


async def test_offsets_without_a_record_at_the_end_of_the_log_are_committed() -> None:
    world = World()
    async with writing(world) as (writer, _):
        writer.feed(records(b"a", b"b"))
        await world.until(3)
        assert writer.passed(2) == range(0), "the consumer stands where the records end"
        assert writer.passed(5) == range(2, 5)
        await world.until(4)
        assert world.said[-1] == "commit 5"
        assert writer.landed == 5
        assert len(writer.feed(records(b"c", b"d", first=5))) == 0
        await world.until(7)
        assert world.said[-1] == "commit 7"


async def test_records_that_wait_are_never_committed_past() -> None:
    world = World()
    async with writing(world) as (writer, _):
        writer.feed(records(b"a"))
        assert writer.passed(9) == range(0)
        writer.feed(records(b"b", first=1))
        await world.until(3)
        assert world.said == [named(0, 1), inserted(0, 1), "commit 2"]


async def test_a_named_range_is_made_again_before_anything_is_committed_past_it() -> None:
    world = World()
    async with writing(world, Intent(0, 1, NOON_MS)) as (writer, _):
        assert writer.passed(9) == range(0)
        writer.feed(records(b"a", b"b"))
        await world.until(3)
        assert world.said == [named(0, 1), inserted(0, 1), "commit 2"]


async def test_a_full_partition_says_so() -> None:
    world = World()
    world.hold = asyncio.Event()
    async with writing(world) as (writer, _):
        writer.feed(records(b"a", b"b"))
        await world.until(1)
        assert not writer.full
        writer.feed(records(b"c", b"d", b"e", b"f", first=2))
        assert writer.full
        assert writer.held_bytes == 6 * (1 + len(b"search") + RECORD_BYTES), "the batch in hand counts too"


def assignment_of(world: World, failures: list[BaseException]) -> Assignment:
    return Assignment(
        [HERE],
        {HERE.topic: world},  # type: ignore[dict-item]
        {},
        world.commit,
        LIMITS,
        world.clock,
        failures.append,
    )


async def test_assignment_that_ends_lets_its_batches_finish() -> None:
    world, failures = World(), list[BaseException]()
    world.hold = asyncio.Event()
    assignment = assignment_of(world, failures)
    assignment.writers[HERE].feed(records(b"a", b"b"))
    await world.until(1)
    asyncio.get_running_loop().call_later(0.05, world.hold.set)
    assert await assignment.end(5.0)
    assert world.said == [named(0, 1), inserted(0, 1), "commit 2"]
    assert failures == []


async def test_assignment_that_ends_cancels_batches_that_take_too_long() -> None:
    world, failures = World(), list[BaseException]()
    world.hold = asyncio.Event()
    assignment = assignment_of(world, failures)
    assignment.writers[HERE].feed(records(b"a", b"b"))
    await world.until(1)
    assert not await assignment.end(0.05)
    world.hold.set()
    await asyncio.sleep(0.02)
    assert world.said == [named(0, 1)], "no commit of ours after the end"
    assert failures == []


async def test_the_death_of_a_partition_is_noticed() -> None:
    world, failures = World(), list[BaseException]()

    def die() -> None:
        raise RuntimeError("a mistake")

    world.attempts = [die]
    assignment = assignment_of(world, failures)
    assignment.writers[HERE].feed(records(b"a", b"b"))
    await world.until(2)
    await asyncio.sleep(0.02)
    await assignment.end(1.0)
    assert [str(each) for each in failures] == ["a mistake"]
