"""Which batches are folded together, and in which order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from switchgear_stream.batching import MOST_RECORDS, MOST_WAITING, BatchQueue
from tests.support.limits import ANSWER_S


def batch(partition: int, *, records: int = 1, topic: str = "t.executions") -> SimpleNamespace:
    return SimpleNamespace(message=SimpleNamespace(tp=TP(topic, partition)), value=range(records))


class Work:
    """The groups that were processed, with a gate before the end of each."""

    def __init__(self) -> None:
        self.groups: list[list[SimpleNamespace]] = []
        self.gate = asyncio.Event()

    async def __call__(self, *events: SimpleNamespace) -> None:
        self.groups.append(list(events))
        await self.gate.wait()


@pytest.fixture
async def running():
    work = Work()
    queue = BatchQueue(work)
    task = asyncio.create_task(queue.run())
    yield queue, work
    assert not task.done()
    task.cancel()


async def test_batches_that_arrive_during_a_group_are_the_next_group(running):
    queue, work = running
    first, second, third = batch(1), batch(2), batch(3)
    await queue.put(first)
    await asyncio.sleep(0)
    await queue.put(second)
    await queue.put(third)
    await asyncio.sleep(0)
    assert work.groups == [[first]]
    work.gate.set()
    await asyncio.sleep(0.01)
    assert work.groups == [[first], [second, third]]


async def test_a_second_batch_of_a_partition_waits_for_the_next_group():
    queue = BatchQueue(Work())
    first, other, second = batch(1), batch(2), batch(1)
    for event in (first, other, second):
        await queue.put(event)
    assert queue.take() == [first, other]
    assert queue.take() == [second]
    assert queue.take() == []


async def test_executions_and_commands_of_one_partition_may_be_in_one_group():
    queue = BatchQueue(Work())
    execution, command = batch(1), batch(1, topic="t.commands")
    await queue.put(execution)
    await queue.put(command)
    assert queue.take() == [execution, command]


async def test_a_group_ends_when_it_has_enough_records():
    queue = BatchQueue(Work())
    large, small = batch(1, records=MOST_RECORDS), batch(2)
    await queue.put(large)
    await queue.put(small)
    assert queue.take() == [large]
    assert queue.take() == [small]


async def test_putting_a_batch_waits_while_too_many_wait(running):
    queue, work = running
    await queue.put(batch(0))
    await asyncio.sleep(0)
    for number in range(MOST_WAITING):
        await queue.put(batch(number))
    one_more = asyncio.create_task(queue.put(batch(99)))
    await asyncio.sleep(0.01)
    assert not one_more.done()
    work.gate.set()
    await asyncio.wait_for(one_more, ANSWER_S)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3_000)), max_size=40))
def test_every_batch_is_in_one_group_and_a_partition_keeps_its_order(made):
    async def groups() -> list[list[SimpleNamespace]]:
        queue = BatchQueue(Work())
        for partition, records in made:
            await queue.put(batch(partition, records=records))
        found = []
        while group := queue.take():
            found.append(group)
        return found

    taken = asyncio.run(groups())
    for group in taken:
        assert len({event.message.tp for event in group}) == len(group)
        assert sum(len(event.value) for event in group[:-1]) < MOST_RECORDS
    for partition in range(4):
        seen = [len(event.value) for group in taken for event in group if event.message.tp.partition == partition]
        assert seen == [records for owner, records in made if owner == partition]
