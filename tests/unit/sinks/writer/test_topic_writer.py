"""A topic's protocol: what waits in all partitions is named, inserted, and done, in that order and under a fence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.errors import CommitFailedError
from aiokafka.structs import TopicPartition

from switchgear_sinks.writer.assignment import Assignment
from switchgear_sinks.writer.batches import RECORD_BYTES, Batch, Record
from switchgear_sinks.writer.intents import MOST_RANGES, Committed, Intent, Range
from switchgear_sinks.writer.pace import Pace
from switchgear_sinks.writer.replay import Replayed
from switchgear_sinks.writer.settings import WriterLimits
from tests.support.limits import ANSWER_S
from tests.support.records import NOON_MS, HandMadeRecord, records

TOPIC = "executions"
HERE, THERE = TopicPartition(TOPIC, 3), TopicPartition(TOPIC, 4)
LIMITS = WriterLimits(batch_rows=2, batch_age_s=60.0, fence_s=10.0)


class World:
    """What a writer meets: a clock, a coordinator that takes commits, a table that takes batches. All written down."""

    def __init__(self) -> None:
        self.now = 100.0
        self.said: list[str] = []
        self.lost = False
        self.attempts: list[Callable[[], None]] = []
        self.hold: asyncio.Event | None = None
        self.log: list[HandMadeRecord] = []
        self.inserted: list[list[int]] = []
        self.failures: list[BaseException] = []
        self.cost_s = 0.0

    def clock(self) -> float:
        return self.now

    async def commit(self, offsets: dict[Any, Any]) -> None:
        if self.lost:
            raise CommitFailedError("rebalanced")
        each = (f"{place.partition}:{at.offset} {at.metadata}".strip() for place, at in sorted(offsets.items()))
        self.said.append(f"commit {'; '.join(each)}")

    async def insert(self, topic: str, batch: Batch, fence: Callable[[], Awaitable[None]]) -> float:
        for between in [*self.attempts, None]:
            await fence()
            if between is not None:
                self.said.append("failed")
                between()
        if self.hold is not None:
            await self.hold.wait()
        self.said.append(f"insert {batch.intent.token(topic)}")
        self.inserted.append([record.offset for record in batch.records])
        return self.cost_s

    async def read(self, topic: str, intent: Intent, own: Collection[int]) -> Replayed:
        """Return what the log has of the batch, of all its partitions."""
        self.said.append(f"read for {sorted(own)}")
        found: list[Record] = []
        for each in intent.ranges:
            found += [
                one for one in self.log if one.partition == each.partition and each.first <= one.offset <= each.last
            ]
        return Replayed(found, {each.partition: each.last + 1 for each in intent.ranges})

    async def until(self, count: int) -> None:
        async with asyncio.timeout(ANSWER_S):
            while len(self.said) < count:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0.001)


def assignment_of(
    world: World, committed: Mapping[TopicPartition, Committed], limits: WriterLimits = LIMITS
) -> Assignment:
    return Assignment(
        committed,
        {TOPIC: world},  # type: ignore[dict-item]
        committed,
        world.commit,
        world.read,
        limits,
        Pace(limits.batch_age_s, limits.longest_age_s),
        world.clock,
        world.failures.append,
    )


@asynccontextmanager
async def writing(
    world: World, committed: Mapping[TopicPartition, Committed] | None = None, limits: WriterLimits = LIMITS
) -> AsyncIterator[Assignment]:
    assignment = assignment_of(world, {HERE: Committed(0)} if committed is None else committed, limits)
    try:
        yield assignment
    finally:
        await assignment.end(0.0)


def named(first: int, last: int, stamp: int = NOON_MS) -> str:
    return f"commit 3:{first} pending:3={first}-{last}:{stamp}"


def inserted(first: int, last: int, stamp: int = NOON_MS) -> str:
    return f"insert executions:3={first}-{last}:{stamp}"


async def idle(assignment: Assignment) -> None:
    """Wait until the writer has noticed that its commit is done: a little later than the commit itself."""
    async with asyncio.timeout(ANSWER_S):
        while any(each.busy for each in assignment.partitions.values()):  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.001)


async def test_a_batch_is_named_then_inserted_then_done() -> None:
    world = World()
    async with writing(world) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(3)
        assert world.said == [named(0, 1), inserted(0, 1), "commit 3:2"]
        await idle(assignment)
        assert assignment.partitions[HERE].landed == 2
        assert assignment.held_bytes == 0


async def test_what_waits_in_several_partitions_is_one_batch_that_each_commit_names() -> None:
    world = World()
    async with writing(world, {HERE: Committed(0), THERE: Committed(7)}, replace(LIMITS, batch_rows=3)) as assignment:
        assignment.feed(THERE, records(b"a", first=7, partition=4))
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(3)
        name = f"3=0-1:{NOON_MS},4=7-7:{NOON_MS}"
        assert world.said == [
            f"commit 3:0 pending:{name}; 4:7 pending:{name}",
            f"insert executions:{name}",
            "commit 3:2; 4:8",
        ]
        assert world.inserted == [[0, 1, 7]]


async def test_a_batch_has_at_most_so_many_rows_and_the_oldest_go_first() -> None:
    world = World()
    async with writing(world, {HERE: Committed(0), THERE: Committed(0)}) as assignment:
        assignment.feed(THERE, records(b"a", partition=4))
        world.now += 1.0
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(3)
        assert world.said[1] == f"insert executions:3=0-0:{NOON_MS},4=0-0:{NOON_MS}"


async def test_a_batch_has_at_most_so_many_partitions() -> None:
    world = World()
    world.hold = asyncio.Event()
    places = [TopicPartition(TOPIC, number) for number in range(MOST_RANGES + 1)]
    limits = replace(LIMITS, batch_rows=MOST_RANGES + 1)
    async with writing(world, {each: Committed(0) for each in places}, limits) as assignment:
        for each in places:
            assignment.feed(each, records(b"a", partition=each.partition))
        await world.until(1)
        assert len(world.said[0].split("; ")) == MOST_RANGES


async def test_a_partition_is_in_one_batch_at_a_time_and_the_others_go_on() -> None:
    world = World()
    world.hold = asyncio.Event()
    async with writing(world, {HERE: Committed(0), THERE: Committed(0)}) as assignment:
        assignment.feed(HERE, records(b"a", b"b", b"c", b"d"))
        await world.until(1)
        assignment.feed(THERE, records(b"a", b"b", partition=4))
        await world.until(2)
        await asyncio.sleep(0.02)
        assert world.said == [named(0, 1), f"commit 4:0 pending:4=0-1:{NOON_MS}"]
        world.hold.set()
        async with asyncio.timeout(ANSWER_S):
            while len(world.inserted) < 3:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0.001)
        done = next(place for place, each in enumerate(world.said) if "3:2" in each.removesuffix(named(2, 3)))
        assert world.said.index(named(2, 3)) > done
        assert sorted(world.inserted) == [[0, 1], [0, 1], [2, 3]]


async def test_a_batch_is_due_at_its_age_and_not_before() -> None:
    world = World()
    async with writing(world, limits=replace(LIMITS, batch_age_s=1.0)) as assignment:
        assignment.feed(HERE, records(b"a"))
        world.now += 0.9
        assignment.feed(HERE, [])
        await asyncio.sleep(0.02)
        assert world.said == []
        world.now += 0.1
        assignment.feed(HERE, [])
        await world.until(3)
        assert world.said[1] == inserted(0, 0)


async def test_a_batch_waits_longer_after_a_dear_insert() -> None:
    world = World()
    world.cost_s = 0.1
    async with writing(world, limits=replace(LIMITS, batch_age_s=0.5, longest_age_s=3.0)) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(3)
        assignment.feed(HERE, records(b"c", first=2))
        world.now += 1.9
        assignment.feed(HERE, [])
        await asyncio.sleep(0.02)
        assert len(world.said) == 3
        world.now += 0.2
        assignment.feed(HERE, [])
        await world.until(6)


async def test_a_batch_is_due_when_it_has_its_bytes() -> None:
    world = World()
    async with writing(world, limits=replace(LIMITS, batch_rows=100, batch_bytes=4 * RECORD_BYTES)) as assignment:
        assignment.feed(HERE, records(None, None, None, None))
        await world.until(3)
        assert world.inserted == [[0, 1, 2, 3]]


async def test_a_hurried_batch_is_cut_at_once() -> None:
    world = World()
    async with writing(world) as assignment:
        assignment.feed(HERE, records(b"a"))
        assignment.hurry(hurried=True)
        await world.until(3)
        assert world.said[1] == inserted(0, 0)


OLD = Intent((Range(3, 0, 3, 7),))
SHARED = Intent((Range(3, 0, 1, 7), Range(4, 5, 6, 8)))


async def test_a_range_that_was_named_before_keeps_its_name_and_goes_first() -> None:
    world = World()
    world.log = records(*[b"x"] * 6)
    async with writing(world, {HERE: Committed(0, OLD)}) as assignment:
        assignment.feed(HERE, records(*[b"x"] * 6))
        assert assignment.unfinished == 1
        await world.until(7)
        assert world.said == [
            "read for [3]",
            named(0, 3, 7),
            inserted(0, 3, 7),
            "commit 3:4",
            named(4, 5),
            inserted(4, 5),
            "commit 3:6",
        ]
        assert world.inserted == [[0, 1, 2, 3], [4, 5]]
        await idle(assignment)
        assert assignment.unfinished == 0


async def test_a_batch_of_several_partitions_is_replayed_whole_by_the_owner_of_one() -> None:
    world = World()
    world.log = [*records(b"a", b"b"), *records(b"a", b"b", first=5, partition=4)]
    async with writing(world, {THERE: Committed(5, SHARED)}) as assignment:
        await world.until(4)
        assert world.said == [
            "read for [4]",
            "commit 4:5 pending:3=0-1:7,4=5-6:8",
            "insert executions:3=0-1:7,4=5-6:8",
            "commit 4:7",
        ]
        assert world.inserted == [[0, 1, 5, 6]]
        await idle(assignment)
        assert assignment.partitions[THERE].landed == 7


async def test_a_batch_of_two_own_partitions_is_replayed_once() -> None:
    world = World()
    world.log = [*records(b"a", b"b"), *records(b"a", b"b", first=5, partition=4)]
    async with writing(world, {HERE: Committed(0, SHARED), THERE: Committed(5, SHARED)}):
        await world.until(4)
        assert world.said[-1] == "commit 3:2; 4:7"
        assert len(world.inserted) == 1


async def test_an_own_partition_that_is_past_the_batch_is_not_committed_back() -> None:
    world = World()
    world.log = [*records(b"a", b"b"), *records(b"a", b"b", first=5, partition=4)]
    async with writing(world, {HERE: Committed(9), THERE: Committed(5, SHARED)}):
        await world.until(4)
        assert world.said[0] == "read for [4]"
        assert world.said[-1] == "commit 4:7"


async def test_an_intent_that_does_not_name_its_own_partition_is_not_ours() -> None:
    world = World()
    async with writing(world, {HERE: Committed(0, Intent((Range(9, 0, 1, 7),)))}) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(3)
        assert world.said[1] == inserted(0, 1)


async def test_an_attempt_soon_after_needs_no_new_fence() -> None:
    world = World()
    world.attempts = [lambda: None, lambda: None]
    async with writing(world) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(5)
        assert world.said == [named(0, 1), "failed", "failed", inserted(0, 1), "commit 3:2"]


async def test_what_the_store_has_already_is_passed_over_and_each_commit_says_so_until_then() -> None:
    world = World()
    async with writing(world, {HERE: Committed(0, stored=range(3, 6))}) as assignment:
        assignment.feed(HERE, records(*[b"x"] * 8))
        assignment.hurry(hurried=True)
        await world.until(9)
        assert world.said == [
            f"{named(0, 1)} stored:3-6",
            inserted(0, 1),
            "commit 3:2 stored:3-6",
            f"{named(2, 2)} stored:3-6",
            inserted(2, 2),
            "commit 3:3 stored:3-6",
            named(6, 7),
            inserted(6, 7),
            "commit 3:8",
        ]


async def test_a_partition_that_ends_with_what_the_store_has_is_committed_to_its_end() -> None:
    world = World()
    async with writing(world, {HERE: Committed(0, stored=range(2, 4))}) as assignment:
        assignment.feed(HERE, records(*[b"x"] * 4))
        await world.until(3)
        assert world.said == [f"{named(0, 1)} stored:2-4", inserted(0, 1), "commit 3:2 stored:2-4"]
        assignment.reached(HERE, 4)
        await world.until(4)
        assert world.said[3] == "commit 3:4"


def sleeping(world: World, seconds: float) -> Callable[[], None]:
    def sleep() -> None:
        world.now += seconds

    return sleep


async def test_a_sink_that_slept_checks_its_assignment_before_it_inserts() -> None:
    world = World()
    world.attempts = [sleeping(world, 11.0)]
    async with writing(world) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(5)
        assert world.said == [named(0, 1), "failed", named(0, 1), inserted(0, 1), "commit 3:2"]


async def test_a_sink_that_was_replaced_while_it_slept_inserts_nothing() -> None:
    world = World()

    def replaced() -> None:
        world.now += 11.0
        world.lost = True

    world.attempts = [replaced]
    async with writing(world) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(2)
        await asyncio.sleep(0.02)
        assert world.said == [named(0, 1), "failed"]
        assert world.failures == []


async def test_records_missing_in_the_log_are_counted() -> None:
    world = World()
    async with writing(world) as assignment:
        assert len(assignment.feed(HERE, records(b"a", first=50))) == 0, "the first offset is not a gap"
        assert len(assignment.feed(HERE, records(b"b", first=51))) == 0
        assert assignment.feed(HERE, records(b"c", first=60)) == range(52, 60)


async def test_offsets_without_a_record_at_the_end_of_the_log_are_committed() -> None:
    world = World()
    async with writing(world, {HERE: Committed(0), THERE: Committed(0)}) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(3)
        await idle(assignment)
        assert assignment.reached(HERE, 2) == range(0), "the consumer stands where the records end"
        assert assignment.reached(HERE, 5) == range(2, 5)
        assignment.reached(THERE, 8)
        await world.until(4)
        assert world.said[-1] == "commit 3:5; 4:8"
        await idle(assignment)
        assert assignment.partitions[HERE].landed == 5
        assert len(assignment.feed(HERE, records(b"c", b"d", first=5))) == 0
        await world.until(7)
        assert world.said[-1] == "commit 3:7"


async def test_records_that_wait_are_never_committed_past() -> None:
    world = World()
    async with writing(world) as assignment:
        assignment.feed(HERE, records(b"a"))
        assert assignment.reached(HERE, 9) == range(0)
        assignment.feed(HERE, records(b"b", first=1))
        await world.until(3)
        assert world.said == [named(0, 1), inserted(0, 1), "commit 3:2"]


async def test_a_batch_being_stored_is_never_committed_past() -> None:
    world = World()
    world.hold = asyncio.Event()
    world.log = records(*[b"x"] * 4)
    async with writing(world, {HERE: Committed(0, OLD)}) as assignment:
        assert assignment.reached(HERE, 9) == range(0)
        await world.until(2)
        assert assignment.reached(HERE, 9) == range(0)
        world.hold.set()
        await world.until(4)
        assert world.said == ["read for [3]", named(0, 3, 7), inserted(0, 3, 7), "commit 3:4"]


async def test_a_full_partition_says_so() -> None:
    world = World()
    world.hold = asyncio.Event()
    async with writing(world) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        await world.until(1)
        assert not assignment.partitions[HERE].full
        assignment.feed(HERE, records(b"c", b"d", b"e", b"f", first=2))
        assert assignment.partitions[HERE].full
        assert assignment.held_bytes == 6 * (1 + len(b"search") + RECORD_BYTES), "the batch in hand counts too"


async def test_an_ending_assignment_finishes_its_batch_and_starts_no_other() -> None:
    world = World()
    world.hold = asyncio.Event()
    assignment = assignment_of(world, {HERE: Committed(0)})
    assignment.feed(HERE, records(b"a", b"b", b"c", b"d"))
    await world.until(1)
    asyncio.get_running_loop().call_later(0.05, world.hold.set)
    assert await assignment.end(5.0)
    assert world.said == [named(0, 1), inserted(0, 1), "commit 3:2"]
    assert world.failures == []


async def test_assignment_that_ends_cancels_batches_that_take_too_long() -> None:
    world = World()
    world.hold = asyncio.Event()
    assignment = assignment_of(world, {HERE: Committed(0)})
    assignment.feed(HERE, records(b"a", b"b"))
    await world.until(1)
    assert not await assignment.end(0.05)
    world.hold.set()
    await asyncio.sleep(0.02)
    assert world.said == [named(0, 1)], "no commit of ours after the end"
    assert world.failures == []


@pytest.mark.parametrize("committed", [Committed(0), Committed(0, OLD)], ids=["a batch", "a replay"])
async def test_the_death_of_a_task_is_noticed(committed: Committed) -> None:
    world = World()

    def die() -> None:
        raise RuntimeError("a mistake")

    world.attempts = [die]
    async with writing(world, {HERE: committed}) as assignment:
        assignment.feed(HERE, records(b"a", b"b"))
        async with asyncio.timeout(ANSWER_S):
            while not world.failures:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0.001)
        assert [str(each) for each in world.failures] == ["a mistake"]


async def test_a_replay_that_a_cancellation_does_not_reach_commits_nothing_and_ends() -> None:
    """A library may lose it: `asyncio.wait_for` does in Python 3.11, in the moment of a result."""
    world = World()
    asked = asyncio.Event()

    async def deaf(_topic: str, intent: Intent, _own: Collection[int]) -> Replayed:
        asked.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return Replayed(records(b"a"), {each.partition: each.last + 1 for each in intent.ranges})

    world.read = deaf  # type: ignore[method-assign]
    pending = Intent.naming([Range(3, 0, 0, NOON_MS)])
    assignment = assignment_of(world, {HERE: Committed(0, pending)})
    await asked.wait()
    async with asyncio.timeout(ANSWER_S):
        await assignment.end(0.0)
    assert world.said == []
    assert world.failures == []
